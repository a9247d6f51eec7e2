import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command import box, mapping
from command.show import Listed
from console import looking
from console.history import Recorder
from console.looking import Clock, Looking, Seen, _nothing
from tests.unit.full_disk import full_disk
from tests.unit.throttler.answer import answer
from tributary.daemons import directories

NOON = 1_800_000_000.0
"""By the clock; the machine has run for 100 s then."""


def notes(clock: Clock, *looks: tuple[float, float]) -> list[str | None]:
    """At looks after so many seconds, by the clock and truly."""
    return [clock.note(NOON + shown, 100 + true) for shown, true in looks]


def test_a_clock_that_is_set_is_told_for_ten_minutes_as_it_was_set_last_and_one_that_runs_faster_was_not() -> None:
    back = "this machine's clock was set back by 2 h 00 min"
    found = notes(Clock(), (0, 0), (1, 1), (2 - 7200, 2), (3 - 7200, 3), (600 - 7200, 600), (603 - 7200, 603))
    assert found == [None, None, back, back, back, None]
    forward = "this machine's clock was set forward by 45 s"
    assert notes(Clock(), (0, 0), (-50, 1), (-4, 2))[-1] == forward
    assert notes(Clock(), *((1.001 * second, second) for second in range(0, 9000, 900))) == [None] * 10


def test_the_page_says_that_the_disk_is_full_until_it_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seconds = iter(range(0, 1000, 61))

    def take(_before: Seen | None) -> Seen:
        seen = _nothing("no throttler runs")
        look = seen.look.model_copy(update={"time": NOON + next(seconds)})
        return replace(seen, look=look, links=Listed([mapping.link(name="lte", kind="path", state="up")], 0.0))

    monkeypatch.setattr(looking, "take", take)
    monkeypatch.setattr(Clock, "note", lambda *_: None)
    page = Looking(Recorder(tmp_path / "history.sqlite"), print)

    def told() -> list[str]:
        page._look()
        found: list[str] = json.loads(page.text)["notes"]
        return found

    assert told() == ["no throttler runs"]
    with full_disk():
        first, full = told()
    assert first == "no throttler runs" and full.startswith(f"history: {tmp_path / 'history.sqlite'} cannot be")
    assert told() == ["no throttler runs"]


def test_a_look_has_how_much_of_clients_the_throttler_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(directories, "RUN", tmp_path)
    assert looking.take(None).privacy == "full"
    monkeypatch.setattr(box, "throttler", lambda _seconds: answer(privacy="network"))
    assert looking.take(None).privacy == "network"


def test_a_disk_that_is_waited_for_sets_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.time", lambda: NOON + now[0])
    monkeypatch.setattr("time.clock_gettime", lambda _clock: 100 + now[0])
    monkeypatch.setattr(looking, "take", lambda _before: _nothing("no throttler runs"))
    waits = iter([6.0, 0.0, 6.0])
    recorder: Any = SimpleNamespace(add=lambda *_: wait(next(waits)), failure=None)
    page = Looking(recorder, print)
    for _ in range(3):
        page._look()
        assert json.loads(page.text)["notes"] == ["no throttler runs"]
