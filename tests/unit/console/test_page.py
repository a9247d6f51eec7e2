import hashlib
import json
import re
import shutil
import subprocess
from itertools import pairwise
from typing import Any

import pytest

from console.files import FOLDER, load
from tributary.settings.units import PositiveRate

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


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def ran(module: str, names: str, script: str) -> Any:
    """What a script of JavaScript logs as JSON, which has these ``names`` of a module of the page."""
    code = f"const {{ {names} }} = await import({json.dumps((FOLDER / module).as_uri())});\n{script}"
    run = ["node", "--input-type=module", "--eval", code]
    return json.loads(subprocess.run(run, capture_output=True, text=True, check=True, timeout=30).stdout)


@needs_node
def test_a_router_that_is_revoked_while_its_sessions_are_shown_can_be_given_up() -> None:
    """Without it among the choices the page would ask for it for ever, and show "any router"."""
    given = [([], ""), (["bonn"], ""), (["bonn"], "bonn"), (["bonn"], "berlin"), ([], "berlin")]
    script = f"""
        const chosen = ([names, name]) => choosable(names.map((name) => ({{ name }})), name).map(({{ name }}) => name);
        console.log(JSON.stringify({json.dumps(given)}.map(chosen)));
    """
    assert ran("sessions.js", "choosable", script) == [[], ["bonn"], ["bonn"], ["bonn", "berlin"], ["berlin"]]


@needs_node
def test_a_home_router_has_no_sessions_also_while_its_daemon_is_down_unless_a_throttler_runs_there() -> None:
    given = [([], "gateway"), ([], None), (["router"], None), ([], "router"), (["throttler"], "router")]
    looks = [
        {
            "services": [{"name": name, "running": name in running} for name in ("throttler", "router")],
            "examined": role and {"role": role},
        }
        for running, role in given
    ]
    script = f"console.log(JSON.stringify({json.dumps(looks)}.map(mayHaveSessions)));"
    assert ran("sessions.js", "mayHaveSessions", script) == [True, True, False, False, True]


@needs_node
def test_a_link_keeps_its_place_and_colour_when_its_rank_changes() -> None:
    links = [{"kind": "wan", "name": name} for name in ("lte10", "lte2", "lte02", "dsl")]
    links += [{"kind": "path", "name": name} for name in ("wired", "nearest")]
    script = f"console.log(JSON.stringify(placed({{ time: 1, links: {json.dumps(links)} }})));"
    found = ran("links.js", "placed", script)
    assert found["time"] == 1
    assert [link["name"] for link in found["links"]] == ["dsl", "lte02", "lte2", "lte10", "wired", "nearest"]


@needs_node
def test_a_slider_goes_from_64_kbit_to_no_limit_in_steps_of_like_ratio_that_the_daemons_read() -> None:
    script = "console.log(JSON.stringify([STEPS, STEPS.map(rateSetting)]));"
    steps, (*written, none) = ran("units.js", "STEPS, rateSetting", script)
    assert (steps[0], steps.pop(), none) == (64e3, None, None)
    assert all(1.4 < after / before < 1.8 for before, after in pairwise(steps))
    read = [PositiveRate.parse(text) for text in written]
    assert [rate.amount for rate in read] == steps
    shown = json.dumps([*map(str, read), None])
    script = f"console.log(JSON.stringify({shown}.map((text) => position(parseRate(text)))));"
    assert ran("units.js", "position, parseRate", script) == list(range(len(steps) + 1))


@needs_node
def test_of_a_drag_the_last_value_is_sent_and_ten_a_second_at_most() -> None:
    script = """
        const sent = [];
        const send = paced(async (value) => sent.push([value, performance.now()]));
        for (let value = 1; value < 20; value += 1) send(value);
        await send(20);
        await send(21);
        console.log(JSON.stringify(sent));
    """
    sent = ran("api.js", "paced", script)
    assert [value for value, _ in sent] == [1, 20, 21]
    assert all(after - before > 95 for (_, before), (_, after) in pairwise(sent))


@needs_node
def test_charts_stack_paths_and_break_where_nothing_is_known() -> None:
    script = """
        const series = (sent, received) => ({ sent, received });
        const past = fromServer({ step: 1, times: [1, 2, 20], links: { a: series([1, 2, 3], [1, 1, null]) } });
        const now = { name: "b", sent_rate: 5, received_rate: 1 };
        const grown = append(past, { time: 21, links: [now] });
        console.log(JSON.stringify([past, stacked(grown, ["a", "b"]), append(grown, { time: 2, links: [now] }).times]));
    """
    past, sums, back = ran("history.js", "fromServer, append, stacked", script)
    assert past == {"times": [1, 2, 3, 20], "links": {"a": {"sent": [1, 2, None, 3], "received": [1, 1, None, None]}}}
    assert sums == [[2, 3, None, 3, 0], [2, 3, None, 3, 6]]
    assert back == [1, 2], "the clock was set back"
