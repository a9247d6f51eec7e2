"""What the home router's daemon leaves when it ends, in which way ever, and what it never touches."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.router_world import PROBED, World, stop, world
from tests.netns.world import ENVIRONMENT, eventually, process, run, said_ready
from tributary.settings.errors import Exit

pytestmark = pytest.mark.slow

BOTH = ["10.1.0.2", "10.2.0.2"]
DSL_ALONE = '[wan.dsl]\ninterface = "dsl"\n'


@pytest.fixture
def house(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as built:
        yield built


def sockets(house: World) -> set[str]:
    """Both ends of every subflow."""
    lines = house.on_router("ss -HtniO state established").splitlines()
    return {" ".join(line.split()[2:4]) for line in lines if "tcp-ulp-mptcp" in line}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_stop_leaves_rules_routes_endpoints_and_limits_as_they_were(house: World, number: signal.Signals) -> None:
    before = house.everything()
    with house.daemon() as child:
        assert house.everything() != before
        assert stop(child, number) == 0
    assert house.everything() == before
    assert list((house.directory / "state").iterdir()) == []


def test_a_stop_after_links_have_come_and_gone_leaves_nothing(house: World) -> None:
    with house.daemon():
        house.cut("dsl")
        eventually(lambda: "10.1.0.2" not in house.endpoints())
        house.on_router("ip link delete lte")
        eventually(lambda: house.endpoints() == {})
    text = house.everything()
    assert "proto 84" not in text and "lookup 84" not in text and " id " not in text


def test_a_killed_daemons_work_is_taken_over_and_no_subflow_is_lost(house: World) -> None:
    before = house.everything()
    with house.daemon() as first, house.transfer() as transfer:
        eventually(lambda: house.subflows() == BOTH)
        standing, there = house.everything(), sockets(house)
        first.kill()
        first.wait()
        assert house.everything() == standing
        with house.daemon():
            assert (house.everything(), sockets(house)) == (standing, there)
            assert transfer.goes_on()
    assert house.everything() == before


def test_a_killed_daemons_work_that_nobody_wants_any_more_is_taken_away(house: World) -> None:
    before = house.everything()
    with house.daemon() as first:
        first.kill()
        first.wait()
    with house.daemon(DSL_ALONE):
        assert house.rules() == set(house.endpoints()) == {"10.1.0.2", "fd00:1::2"}
        assert house.on_router("ip route show table 8402", check=False) == ""
    assert house.everything() == before


def test_a_daemon_that_is_told_to_leave_hands_over_to_the_next(house: World) -> None:
    with house.daemon() as first, house.transfer() as transfer:
        eventually(lambda: house.subflows() == BOTH)
        standing, there = house.everything(), sockets(house)
        assert stop(first, signal.SIGUSR1) == 0
        assert house.everything() == standing
        with house.daemon():
            assert sockets(house) == there
            assert transfer.goes_on()


def test_what_others_made_is_left_alone(house: World) -> None:
    for command in (
        "ip rule add from 10.2.0.2 lookup 77 priority 8400 protocol static",
        "ip rule add from 172.16.0.0/12 lookup 77 protocol 84",
        "ip route add 198.51.100.0/24 via 10.1.0.1 table 8401 proto static",
        "ip route add 198.51.100.0/24 via 10.1.0.1 proto 84",
        "ip addr add 10.9.9.9/32 dev lo",
        "ip mptcp endpoint add 10.9.9.9 id 200 signal",
        "ip mptcp endpoint add 10.2.0.2 dev lte id 201 subflow backup",
    ):
        house.on_router(command)
    before = house.everything()
    with house.daemon():
        found = house.endpoints()
        assert (found["10.9.9.9"]["id"], found["10.2.0.2"]["id"]) == (200, 201)
        assert "10.1.0.2" in found
        house.cut("lte")
        eventually(lambda: "10.2.0.0/24" not in house.on_router("ip route show table 8402"))
        house.restore("lte")
        eventually(lambda: "10.2.0.0/24" in house.on_router("ip route show table 8402"))
        assert house.endpoints()["10.2.0.2"] == found["10.2.0.2"]
    assert house.everything() == before


def test_the_commands_of_a_plan_do_what_the_daemon_does(house: World) -> None:
    state = ("--state-directory", str(house.directory / "state"))
    before = house.everything()
    planned = run(*house.command("plan", str(house.settings()), *state)).splitlines()
    assert house.everything() == before
    assert planned[:2] == ["# dsl (dsl): up", "# lte (lte): up"]
    dry = run(*house.command("run", "--dry-run", str(house.settings()), *state)).splitlines()
    assert dry == planned
    with house.daemon():
        done = house.everything()
        after = run(*house.command("plan", str(house.settings()), *state)).splitlines()
        assert after[-1] == "# nothing to change"
    for line in planned[2:]:
        house.on_router(line)
    assert house.everything() == done


def test_other_settings_are_taken_over_by_a_signal_and_wrong_ones_are_not(house: World) -> None:
    with house.daemon() as child:
        file = house.settings()
        text = file.read_text()
        file.write_text("nonsense")
        child.send_signal(signal.SIGHUP)
        file.write_text(DSL_ALONE + "[mptcp]\nsubflows = 3\n")
        child.send_signal(signal.SIGHUP)
        eventually(lambda: house.rules() == {"10.1.0.2", "fd00:1::2"})
        assert "subflows 3" in house.on_router("ip mptcp limits")
        file.write_text(text)
        child.send_signal(signal.SIGHUP)
        eventually(lambda: {"10.1.0.2", "10.2.0.2"} <= house.rules())
    assert house.rules() == set()


def refused(house: World, *words: str) -> tuple[int, str]:
    """The exit code of a command that fails, and what it says."""
    result = subprocess.run(
        house.command(*words), capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=30
    )
    return result.returncode, result.stderr


def test_what_stands_in_the_way_of_a_start_is_said_and_nothing_is_touched(house: World) -> None:
    before = house.everything()
    state = ("--state-directory", str(house.directory / "state"))
    start = ("run", str(house.settings()), *state)
    house.on_router("sysctl -qw net.mptcp.enabled=0")
    code, text = refused(house, *start)
    assert (code, "net.mptcp.enabled=1" in text) == (Exit.UNAVAILABLE, True)
    house.on_router("sysctl -qw net.mptcp.enabled=1")
    assert refused(house, "run", str(house.settings("[wan.dsl]\n")), *state)[0] == Exit.USAGE
    (house.directory / "file").touch()
    code, text = refused(house, "run", str(house.settings()), "--state-directory", str(house.directory / "file"))
    assert (code, "file" in text) == (Exit.SYSTEM, True)
    assert house.everything() == before
    with house.daemon():
        code, text = refused(house, *start)
        assert (code, "already runs" in text) == (Exit.IN_USE, True)
        assert set(BOTH) <= set(house.endpoints())


def test_it_needs_one_capability(house: World) -> None:
    words = house.command("run", str(house.settings(PROBED)), "--state-directory", str(house.directory / "state"))
    limit = ("setpriv", "--bounding-set=-all,+net_admin", "--no-new-privs")
    before = house.everything()
    with process(*words[:4], *limit, *words[4:]) as child, house.transfer():
        said_ready(child)
        eventually(lambda: house.subflows() == BOTH)
        eventually(lambda: all(link["probe"]["rtt_ms"] is not None for link in house.status().values()))
        house.on(house.provider, "ss -K -tn dst 10.2.0.2")
        eventually(lambda: house.subflows() != BOTH)
        eventually(lambda: house.subflows() == BOTH)
        assert stop(child) == 0
    assert house.everything() == before


def test_status_is_for_root_and_has_two_forms(house: World) -> None:
    with house.daemon():
        links = house.answer()["wan"]
        assert [(link["name"], link["state"], link["table"]) for link in links] == [
            ("dsl", "up", 8401),
            ("lte", "up", 8402),
        ]
        assert "2 of 2 links up" in house.tributary("status")
        assert "address 10.2.0.2" in house.tributary("link", "lte")
        asked = (sys.executable, "-m", "command", "status", "router")
        nobody = ("setpriv", "--reuid=65534", "--clear-groups", *asked)
        refused = subprocess.run(
            ["ip", "netns", "exec", house.router, *nobody], capture_output=True, text=True, check=False
        )
        assert refused.returncode == Exit.NO_PERMISSION and "needs root or the group tributary" in refused.stderr
