import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netns.links_world import CLIENT, GATEWAY, connection
from tests.netns.throttler_world import KERNEL, TEXT, classes, elements, status, throttled, throttler
from tests.netns.world import eventually, in_namespace, on, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

SPARE = TEXT.replace('path = "wired"', 'direction = "both"') + '\n[paths.spare]\ninterface = "spare"\n'


@contextmanager
def spare() -> Iterator[None]:
    """An interface for the length of the block."""
    on(GATEWAY, "ip link add spare type veth peer name spare-peer")
    try:
        yield
    finally:
        on(GATEWAY, "ip link del spare", check=False)


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
        assert elements() and resets() == 0


def test_with_the_sniffer_a_subflow_that_carries_nothing_for_long_is_throttled_no_longer() -> None:
    """A phone that leaves coverage sends neither FIN nor RST: its class and its element would stay for ever."""
    lost = "table inet lost { chain out { type filter hook output priority 0; policy drop; }; }"
    with throttled("sniffer", '[limits]\nidle = "8s"\n' + TEXT):
        # From here on nothing of the client arrives, not even that it is gone.
        run(*in_namespace(CLIENT, "nft", lost))
        try:
            eventually(lambda: not elements(), 30)
            assert status()["counters"]["throttled subflows silent for too long"] == 1
        finally:
            on(CLIENT, "nft delete table inet lost")


def test_a_throttler_that_has_nothing_to_do_does_nothing(source: str) -> None:
    def ticks() -> int:
        """Of the processor, a hundredth of a second each (proc(5), utime and stime)."""
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    with throttled(source) as (child, _):
        before = ticks()
        time.sleep(3)
        assert ticks() - before < 50
