import hashlib
import json
import re
import shutil
import subprocess

import pytest

from console.files import FOLDER, load

LOCK = json.loads((FOLDER / "vendor/lock.json").read_text())


def test_vendored_files_are_those_of_the_lock() -> None:
    there = {path.name for path in (FOLDER / "vendor").iterdir()}
    assert {each["file"] for each in LOCK} == there - {"lock.json"}
    for each in LOCK:
        assert hashlib.sha256((FOLDER / "vendor" / each["file"]).read_bytes()).hexdigest() == each["sha256"]


def test_a_browser_loads_little_and_from_here_alone() -> None:
    files = load()
    assert sum(len(each.content) for each in files.values()) < 200_000
    own = {name: each.content.decode() for name, each in files.items() if not name.startswith("vendor/")}
    for name, text in own.items():
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), name
        assert "dangerouslySetInnerHTML" not in text and "innerHTML" not in text, name
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bon[a-z]+=|\bstyle=", own["index.html"])


def test_all_that_is_named_is_there() -> None:
    files = load()
    for name, each in files.items():
        if name.endswith(".html"):
            named = re.findall(r"(?:src|href)=\"/static/([^\"]+)\"", each.content.decode())
        elif name.endswith(".js") and not name.startswith("vendor/"):
            named = [path.removeprefix("./") for path in re.findall(r"from \"(\./[^\"]+)\"", each.content.decode())]
        else:
            continue
        assert set(named) <= files.keys(), name


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_router_that_is_revoked_while_its_sessions_are_shown_can_be_given_up() -> None:
    """Without it among the choices the page would ask for it for ever, and show "any router"."""
    given = [([], ""), (["bonn"], ""), (["bonn"], "bonn"), (["bonn"], "berlin"), ([], "berlin")]
    asked = f"""
        const {{ choosable }} = await import({json.dumps((FOLDER / "sessions.js").as_uri())});
        const chosen = ([names, name]) => choosable(names.map((name) => ({{ name }})), name).map(({{ name }}) => name);
        console.log(JSON.stringify({json.dumps(given)}.map(chosen)));
    """
    run = ["node", "--input-type=module", "--eval", asked]
    answer = subprocess.run(run, capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(answer.stdout) == [[], ["bonn"], ["bonn"], ["bonn", "berlin"], ["berlin"]]
