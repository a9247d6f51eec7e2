import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.home.gateway import gateway_command
from gateway.state import State
from tests.netns.console_world import Browser, console
from tests.netns.gateway_world import INSIDE, World, needs_tools
from tests.netns.world import ENVIRONMENT, eventually, in_namespace, ready, run
from tests.ordinary_user import NOBODY
from tributary.api.places import GATEWAY
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment

pytestmark = needs_tools


@contextmanager
def served(gateway: World) -> Iterator[None]:
    with ready(*gateway.command("serve"), stderr=subprocess.DEVNULL):
        yield


@pytest.fixture
def browser(gateway: World, tmp_path: Path) -> Iterator[Browser]:
    """Beside a service and a console at the gateway."""
    with served(gateway), console(tmp_path / "console", namespace=gateway.gate.namespace) as (made, _):
        yield made


def services(browser: Browser) -> dict[str, str]:
    return {each["name"]: each["summary"] for each in browser.get("look")["services"]}


@pytest.mark.smoke
def test_a_router_is_enrolled_comes_in_and_is_revoked(gateway: World, browser: Browser) -> None:
    browser.post("enrol", 401, name="berlin")
    browser.login()
    made = browser.post("enrol", name="berlin")
    assert made["qr"].startswith("data:image/svg+xml")
    enrolment = check(tomllib.loads(made["settings"])["enrolment"][0], Enrolment, "berlin")
    address = gateway.house.tunnel(enrolment)
    eventually(lambda: gateway.house.pings(address, INSIDE))
    (router,) = browser.get("routers")["routers"]
    assert (router["name"], [tunnel["address"] for tunnel in router["up"]]) == ("berlin", [address])
    eventually(lambda: services(browser)["gateway"] == "1 router enrolled")

    assert "tributary rotate berlin" in browser.post("enrol", 409, name="berlin")["error"]
    assert "1 to 40 of a-z" in browser.post("enrol", 400, name="../berlin")["error"]
    assert "accepted: berlin" in browser.post("revoke", 400, name="paris")["error"]

    browser.post("revoke", name="berlin")
    assert not gateway.house.pings(address, INSIDE)
    assert browser.get("routers")["routers"] == []
    entries = browser.get("journal")["entries"]
    assert [(each["subject"], each["before"], each["after"]) for each in entries] == [
        ("router berlin", "yes", None),
        ("router berlin", None, "yes"),
    ]
    assert "accepted: a change of a limit" in browser.post("undo", 400, entry=entries[0]["id"])["error"]


def test_what_is_wrong_with_a_file_is_told_and_the_rest_is_shown(gateway: World, browser: Browser) -> None:
    browser.login()
    gateway.enrol("berlin")
    (gateway.state / "routers/paris.toml").write_text("number = 0\n")
    shown = browser.get("routers")
    assert [router["name"] for router in shown["routers"]] == ["berlin"]
    assert "paris.toml" in shown["notes"][0]
    file = gateway.folder / "gateway.toml"
    written = file.read_text()
    file.write_text("name = 1\n")
    try:
        status, answer = browser.ask("GET", "/api/v1/routers")
        assert (status, "gateway.toml: name = 1" in answer["error"]) == (400, True)
    finally:
        file.write_text(written)


def test_who_waits_for_another_command_is_told_so_and_keeps_nobody_waiting(gateway: World, browser: Browser) -> None:
    browser.login()
    with State(gateway.state).locked(), ThreadPoolExecutor(1) as thread:
        start = time.monotonic()
        late = thread.submit(browser.post, "enrol", 409, name="berlin")
        assert browser.get("routers")["routers"] == []
        assert browser.get("journal")["entries"] == []
        assert time.monotonic() - start < 4
        assert "another command changes the routers now" in late.result()["error"]
    assert browser.get("routers")["routers"] == []


def test_without_root_one_may_neither_enrol_nor_start_a_second_service(gateway: World) -> None:
    asking = "from tributary.api.places import GATEWAY; GATEWAY.ask({!r}, name='berlin')"
    with served(gateway):
        # As on a machine without the group tributary-steer.
        with gateway.gate.entered():
            GATEWAY.path.chmod(0o666)
        for asked, line in (("enrol", "needs root"), ("revoke", "needs root"), ("routers", "")):
            words = in_namespace(gateway.gate.namespace, *NOBODY, sys.executable, "-c", asking.format(asked))
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60)
            assert (done.returncode == 0) == (not line) and line in done.stderr, done.stderr
        second = subprocess.run(gateway.command("serve"), capture_output=True, text=True, check=False, timeout=60)
        assert (second.returncode, "already runs" in second.stderr) == (Exit.IN_USE, True)
        with gateway.gate.entered(), pytest.raises(CommandError, match="no command 'up'"):
            GATEWAY.ask("up")
        assert json.loads(run(*in_namespace(gateway.gate.namespace, *gateway_command("status", "gateway")))) != {}
