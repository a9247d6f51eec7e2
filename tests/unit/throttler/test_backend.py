"""Counters of classes, which other programs may remove: what the kernel has is for the test to say."""

import pytest

from throttler.policy.decide import ClassRates, Owner
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.backend import KernelBackend, StepFailed
from throttler.shaping.plan import ClassKey, HtbClass, Plan
from throttler.shaping.topology import UPLOAD_DEVICE
from tributary.daemons.logs import Log
from tributary.kernel import htb, interfaces
from tributary.kernel.htb import ClassStatistics

OWNER = Owner("metered", SharedBy.CLIENT, "10.0.1.2")


def of(interface: str, direction: Direction, minor: int) -> HtbClass:
    return HtbClass(ClassKey(interface, direction, OWNER), minor, ClassRates(10**6, 10**6, 0))


THERE, WIRED, GONE, UPLOAD = (
    of("eth0", Direction.DOWNLOAD, 1),
    of("eth0", Direction.DOWNLOAD, 2),
    of("wlan0", Direction.DOWNLOAD, 3),
    of("wlan0", Direction.UPLOAD, 4),
)


@pytest.mark.parametrize(
    ("plan", "lost"),
    [
        (Plan(read=(WIRED, THERE)), "eth0"),
        (Plan(read=(UPLOAD, THERE)), UPLOAD_DEVICE),
        # Who watches interfaces will tell.
        (Plan(read=(GONE, THERE)), None),
        (Plan(read=(WIRED, THERE), close=(WIRED,)), None),
        (Plan(read=(WIRED, THERE), open=(WIRED,)), None),
    ],
)
def test_a_metered_class_that_another_program_has_removed_is_noticed(
    plan: Plan, lost: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = {("eth0", THERE.minor): ClassStatistics(1514, 1, 0, 0)}
    monkeypatch.setattr(htb, "of_class", lambda where, _, minor: counters.get((where, minor)))
    monkeypatch.setattr(interfaces, "numbers", lambda: {"lo": 1, "eth0": 2})
    read: list[tuple[int, int | None]] = []
    backend = KernelBackend(Log(), lambda: "full")
    if lost is None:
        read.extend(backend.read(plan))
    else:
        with pytest.raises(StepFailed, match=f"another program has removed the class 5452:.* from {lost}"):
            read.extend(backend.read(plan))
    # What the others have counted is not lost.
    assert read == [(plan.read[0].minor, None), (THERE.minor, 1500)]


def test_a_class_of_an_interface_that_is_gone_is_no_failure() -> None:
    assert htb.of_class("not-there", 0x5452_0000, 1) is None
