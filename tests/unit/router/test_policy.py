import ctypes
from datetime import UTC, datetime
from pathlib import Path

import pytest

from router.links.model import Reason
from router.state.owned import NOTHING_OWNED
from router.state.reconciler import Reconciler
from tests.unit.router.house import DSL, LTE, cut, house, link, settings
from tributary.kernel import clock

NIGHT = '[wan.dsl]\ninterface = "eth0"\n[wan.lte]\ninterface = "usb*"\nhours = ["22:00-06:00", "12:00-13:30"]'
IN_WORDS = "outside of its hours, used again at "


def why(time: str, *, is_synchronized: bool = True, dsl_is_cut: bool = False, lte_is_cut: bool = False) -> str | None:
    reconciler = Reconciler(settings(NIGHT), NOTHING_OWNED)
    wall = datetime.fromisoformat(f"2026-11-24 {time}").timestamp()
    links = (cut(DSL) if dsl_is_cut else DSL, cut(LTE) if lte_is_cut else LTE)
    reconciler.reconcile(house(*links), wall, wall, is_synchronized=is_synchronized)
    return link(reconciler, "lte").reason


@pytest.mark.parametrize("time", ["22:00", "23:59", "00:00", "05:59", "12:00", "13:29"])
def test_within_its_hours_a_link_is_used(time: str) -> None:
    assert why(time) is None


@pytest.mark.parametrize(("time", "next_time"), [("06:00", "12:00"), ("11:59", "12:00"), ("13:30", "22:00")])
def test_outside_its_hours_it_is_off_even_if_no_other_works_and_says_when_it_is_back(time: str, next_time: str) -> None:
    assert why(time) == why(time, dsl_is_cut=True) == IN_WORDS + next_time


def test_outside_of_its_hours_it_says_so_also_if_it_is_switched_off() -> None:
    assert why("06:00", lte_is_cut=True) == IN_WORDS + "12:00"
    assert why("23:00", lte_is_cut=True) == Reason.NO_CARRIER


@pytest.mark.parametrize("time", ["11:00", "23:00"])
def test_while_the_time_is_not_known_it_is_used_only_if_no_other_works(time: str) -> None:
    assert why(time, is_synchronized=False) == "it has hours, and the time is not known yet"
    assert why(time, is_synchronized=False, dsl_is_cut=True) is None


def test_hours_are_those_of_the_time_zone_that_is_said() -> None:
    reconciler = Reconciler(settings('time_zone = "Asia/Tokyo"\n' + NIGHT), NOTHING_OWNED)
    for hour, down in ((2, IN_WORDS + "12:00"), (3, None), (4, None), (5, IN_WORDS + "22:00"), (13, None)):
        reconciler.reconcile(house(DSL, LTE), datetime(2026, 11, 24, hour, tzinfo=UTC).timestamp(), 0)
        assert link(reconciler, "lte").reason == down


@pytest.mark.parametrize(
    ("timesync", "kernel", "is_synchronized"),
    [
        ([], 0x2001, True),  # another program keeps it
        ([], 0x40, False),
        (["."], 0x40, False),
        ([".", "synchronized"], 0x40, True),
        (["."], 0x2001, True),
        ([], None, True),
        (["."], None, False),
    ],
)
def test_the_clock_is_believed_when_any_program_has_synchronized_it(
    timesync: list[str], kernel: int | None, is_synchronized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> int:
        if kernel is None:
            raise PermissionError
        return kernel

    monkeypatch.setattr(clock, "status", status)
    folder = tmp_path / "timesync"
    for name in timesync:
        folder.mkdir(exist_ok=True)
        if name != ".":
            (folder / name).touch()
    assert clock.is_synchronized(folder) == is_synchronized


def test_the_kernel_says_what_it_thinks_of_the_clock() -> None:
    """The same as the whole call returns: 5, TIME_ERROR, is that it is not synchronized (adjtimex(2))."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    assert state == 5 or not clock.status() & 0x40
