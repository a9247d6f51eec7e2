import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netns.links_world import AT_CLIENT, GATEWAY, connection
from tests.netns.throttler_world import KERNEL, TEXT, ask, classes, elements, spare, status, throttled, throttler
from tests.netns.world import ENVIRONMENT, Child, cpu_seconds, eventually, in_namespace, on, program, ready, ruled
from tests.ordinary_user import NOBODY
from tributary.settings.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

# --- Who else asks at its socket ---

SOCKET = Path("/run/tributary/throttler.sock")


def command(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of nobody's."""
    called = in_namespace(GATEWAY, *NOBODY, sys.executable, "-m", module, *arguments)
    return subprocess.run(called, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@contextmanager
def nobody_connected(folder: Path, count: int, request: bytes) -> Iterator[Child]:
    """Nobody's connections, each with that request."""
    file = folder / "request"
    file.write_bytes(request)
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o055)
    client = program("control_client", str(SOCKET), str(count), str(file))
    with ready(*in_namespace(GATEWAY, *NOBODY, *client)) as child:
        yield child


def let_everybody_in() -> None:
    """As the members of the group may."""
    SOCKET.chmod(0o666)


def test_who_is_neither_root_nor_in_the_group_may_not_even_ask() -> None:
    with throttler("kernel"):
        assert SOCKET.stat().st_mode & 0o007 == 0
        refused = command("command", "sessions")
        assert (refused.returncode, "needs root or the group tributary" in refused.stderr) == (Exit.NO_PERMISSION, True)
    assert not SOCKET.exists()


def test_who_is_not_root_may_ask_and_change_nothing() -> None:
    with throttled("kernel"):
        let_everybody_in()
        (session,) = status()["sessions"]
        for arguments, code in (
            (("command", "sessions"), 0),
            (("command", "explain", session["token"]), 0),
            (("throttler", "set", "x", "rate=1mbit"), Exit.NO_PERMISSION),
            (("throttler", "unset", "wired-slow"), Exit.NO_PERMISSION),
            (("throttler", "reload"), Exit.NO_PERMISSION),
        ):
            result = command(*arguments)
            assert result.returncode == code, result.stderr


def test_connections_at_rest_do_not_lock_root_out(tmp_path: Path) -> None:
    """Sixteen connections that say nothing, as nobody, and then all the room that there is."""
    with throttler("kernel"):
        let_everybody_in()
        for count in (16, 100):
            with nobody_connected(tmp_path, count, b""):
                ask("set", "live", "path=wired", "rate=4mbit")
                assert [rule["name"] for rule in status()["rules"]] == ["live", "wired-slow"]
                ask("unset", "live")


def test_many_large_questions_at_once_delay_nothing(tmp_path: Path) -> None:
    """Fifteen times 9,000 ends to explain, as nobody: a join is seen and held as ever."""
    ends = json.dumps({"command": "explain", "ends": ["x"] * 9000}).encode() + b"\n"
    with throttler("kernel"):
        let_everybody_in()
        with nobody_connected(tmp_path, 15, ends) as asking, connection():
            eventually(elements, 5)
            eventually(lambda: asking.ask() == "15\n", 5)


def test_a_request_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    with throttler("kernel") as child:
        let_everybody_in()
        with nobody_connected(tmp_path, 1, b"[" * 60000 + b"\n"):
            assert status()["rules"] and child.poll() is None


# --- Interfaces that come and go, and other programs' rules ---

SPARE = TEXT.replace('path = "wired"', 'direction = "both"') + '\n[paths.spare]\ninterface = "spare"\n'


def shaped() -> bool:
    """Whether the throttler has its tree on the spare interface, and leads there what comes in."""
    return "htb 5452:" in on(GATEWAY, "tc qdisc show dev spare", check=False) and '"spare"' in on(
        GATEWAY, "nft list table netdev throttler", check=False
    )


def resets() -> int:
    return int(status()["counters"].get("resets", 0))


def test_a_path_without_its_interface_waits_for_it_and_the_others_go_on(source: str) -> None:
    """An interface that is missing at the start, comes, goes, comes back, and is replaced by one of its name."""
    with throttled(source, SPARE) as (child, _):
        held = classes()
        assert [path["present"] for path in status()["paths"]] == [True, True, False]
        for _ in range(2):
            with spare():
                eventually(shaped)
                assert status()["paths"][2]["present"]
                assert ("spare" in status()["capture"]) == (source == "sniffer")
                on(GATEWAY, "ip link del spare")
                on(GATEWAY, "ip link add spare type veth peer name spare-peer")
                eventually(shaped)
            eventually(lambda: not status()["paths"][2]["present"])
            assert "spare" not in status()["capture"]
        assert elements() and classes() == held and resets() == 0
        assert child.poll() is None


def test_an_interface_that_comes_and_goes_again_and_again_ends_nothing(source: str) -> None:
    """A plug with a loose contact: it is gone again while it is set up."""
    with throttled(source, SPARE) as (child, _):
        for _ in range(25):
            with spare():
                pass
        with spare():
            eventually(shaped)
        assert child.poll() is None
        eventually(lambda: status()["classes"])


def test_what_is_throttled_on_an_interface_that_goes_is_free_and_the_rest_is_still_throttled(source: str) -> None:
    """The client's second link is unplugged at the gateway, and plugged in again."""
    with throttled(source):
        on(GATEWAY, "ip link set wired name unplugged")
        try:
            eventually(lambda: not status()["paths"][0]["present"])
            assert not elements() and status()["paths"][0]["throttled"] == 0
        finally:
            on(GATEWAY, "ip link set unplugged name wired")
        eventually(lambda: status()["paths"][0]["present"])
        with connection():
            eventually(elements)


@KERNEL
def test_limits_come_back_by_themselves_when_another_program_flushes_all_rules(source: str) -> None:
    """`nft flush ruleset`, as a reload of nftables.service on Debian does it, while a subflow is held; and twice."""
    with throttler(source) as child, connection():
        (held,) = eventually(elements)
        for times in (1, 2):
            on(GATEWAY, "nft flush ruleset")
            eventually(lambda: resets() == times)  # noqa: B023
            assert elements() == [held] and classes()
        assert child.poll() is None


@KERNEL
def test_rules_of_other_programs_cause_no_reset(source: str) -> None:
    with throttled(source):
        on(GATEWAY, "nft add table inet somebody")
        on(GATEWAY, "nft delete table inet somebody")
        time.sleep(0.5)  # it looks every 0.25 s
        assert elements() and resets() == 0


def test_with_the_sniffer_a_subflow_that_carries_nothing_for_long_is_throttled_no_longer() -> None:
    """A phone that leaves coverage sends neither FIN nor RST: its class and its element would stay for ever."""
    lost = "table inet lost { chain out { type filter hook output priority 0; policy drop; }; }"
    # From then on nothing of the client arrives, not even that it is gone.
    with throttled("sniffer", '[limits]\nidle = "8s"\n' + TEXT), ruled(AT_CLIENT, lost):
        eventually(lambda: not elements(), 30)
        assert status()["counters"]["throttled subflows silent for too long"] == 1


def test_a_throttler_that_has_nothing_to_do_does_nothing(source: str) -> None:
    with throttled(source) as (child, _):
        before = cpu_seconds(child.pid)
        time.sleep(3)
        assert cpu_seconds(child.pid) - before < 0.5
