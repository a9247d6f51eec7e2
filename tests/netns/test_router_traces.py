import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.netns.router_world import BOTH, PROBED, World
from tests.netns.world import ENVIRONMENT, eventually, in_namespace, run
from tributary.settings.errors import Exit

pytestmark = pytest.mark.slow

DSL_ALONE = '[wan.dsl]\ninterface = "dsl"\n'


def test_a_stop_after_links_have_come_and_gone_leaves_nothing(house: World) -> None:
    with house.daemon():
        house.cut("dsl")
        eventually(lambda: "10.1.0.2" not in house.endpoints())
        house.on_router("ip link delete lte")
        eventually(lambda: house.endpoints() == {})
    text = house.everything()
    assert "proto 84" not in text and "lookup 84" not in text and " id " not in text


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [(signal.SIGKILL, -signal.SIGKILL, signal.SIGTERM), (signal.SIGUSR1, 0, signal.SIGINT)],
)
def test_what_a_killed_daemon_or_one_that_is_told_to_leaves_is_taken_over_and_a_stop_leaves_all_as_it_was(
    house: World, number: signal.Signals, code: int, last: signal.Signals
) -> None:
    """No subflow is lost meanwhile."""
    before = house.everything()
    with house.daemon() as first, house.transfer() as transfer:
        house.has_subflows(*BOTH)
        standing, there = house.everything(), house.sockets()
        assert standing != before
        assert first.stop(number) == code
        assert house.everything() == standing
        with house.daemon() as second:
            assert (house.everything(), house.sockets()) == (standing, there)
            assert transfer.goes_on()
            assert second.stop(last) == 0
    assert house.everything() == before
    assert list(house.state.iterdir()) == []


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

    def plan(*words: str) -> list[str]:
        where = (str(house.settings()), "--state-directory", str(house.state))
        return run(*house.command(*words, *where)).splitlines()

    before = house.everything()
    planned = plan("plan")
    assert house.everything() == before
    assert planned[:2] == ["# dsl (dsl): up", "# lte (lte): up"]
    assert plan("run", "--dry-run") == planned
    with house.daemon():
        done = house.everything()
        assert plan("plan")[-1] == "# nothing to change"
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
        eventually(lambda: "subflows 3" in house.on_router("ip mptcp limits"))
        file.write_text(text)
        child.send_signal(signal.SIGHUP)
        eventually(lambda: {"10.1.0.2", "10.2.0.2"} <= house.rules())
    assert house.rules() == set()


def refused(command: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command that fails, and what it says."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=30)
    return result.returncode, result.stderr


def test_what_stands_in_the_way_of_a_start_is_said_and_nothing_is_touched(house: World) -> None:
    before = house.everything()

    def is_refused(code: Exit, reason: str, settings: Path | None = None, state: Path | None = None) -> None:
        words = ("run", str(settings or house.settings()), "--state-directory", str(state or house.state))
        found, text = refused(house.command(*words))
        assert (found, reason in text) == (code, True), text

    house.on_router("sysctl -qw net.mptcp.enabled=0")
    is_refused(Exit.UNAVAILABLE, "net.mptcp.enabled=1")
    house.on_router("sysctl -qw net.mptcp.enabled=1")
    is_refused(Exit.USAGE, "", house.settings("[wan.dsl]\n"))
    (house.directory / "file").touch()
    is_refused(Exit.SYSTEM, "file", state=house.directory / "file")
    assert house.everything() == before
    with house.daemon():
        is_refused(Exit.IN_USE, "already runs")
        assert set(BOTH) <= set(house.endpoints())


def test_it_needs_one_capability(house: World) -> None:
    limit = ("setpriv", "--bounding-set=-all,+net_admin", "--no-new-privs")
    before = house.everything()
    with house.daemon(PROBED, *limit) as child, house.transfer():
        house.has_subflows(*BOTH)
        eventually(lambda: all(link["probe"]["rtt_ms"] is not None for link in house.status().values()))
        house.on_provider("ss -K -tn dst 10.2.0.2")
        eventually(lambda: house.subflows() != BOTH)
        house.has_subflows(*BOTH)
        assert child.stop() == 0
    assert house.everything() == before


def test_status_is_for_root_and_has_two_forms(house: World) -> None:
    with house.daemon():
        links = house.answer()["wan"]
        told = [(link["name"], link["state"], link["table"]) for link in links]
        assert told == [("dsl", "up", 8401), ("lte", "up", 8402)]
        assert "2 of 2 links up" in house.tributary("status")
        assert "address 10.2.0.2" in house.tributary("link", "lte")
        nobody = ("setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-m", "command", "status", "router")
        code, text = refused(in_namespace(house.router, *nobody))
        assert code == Exit.NO_PERMISSION and "needs root or the group tributary" in text
