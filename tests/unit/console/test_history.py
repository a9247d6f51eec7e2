"""What links have carried."""

import os
from pathlib import Path

import pytest

from console.history import COARSE, SECONDS, Recorder
from tributary.api.documents import Link

START = 1_800_000_000


def link(name: str = "lte", sent: float | None = 1e6, rtt: float | None = 0.02) -> Link:
    nothing = dict.fromkeys(Link.model_fields)
    given = {"name": name, "kind": "path", "state": "up", "sent_rate": sent, "received_rate": 0.0, "rtt": rtt}
    return Link.model_validate({**nothing, "advice": (), **given})


def recorded(file: Path, seconds: int, start: int = START, sent: float | None = 1e6) -> Recorder:
    recorder = Recorder(file)
    for second in range(seconds):
        recorder.add([link(sent=sent)], start + second)
    return recorder


def test_each_second_of_ten_minutes(tmp_path: Path) -> None:
    recorder = recorded(tmp_path / "history.sqlite", SECONDS + 100)
    history = recorder.history(300, START + SECONDS + 99)
    assert (history.step, len(history.times)) == (1, 300)
    assert history.links["lte"].sent == (1e6,) * 300
    assert len(recorder.history(SECONDS, START + SECONDS + 99).times) == SECONDS


def test_days_and_weeks_are_means_and_outlive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorder = Recorder(file)
    for second in range(7200):
        recorder.add([link(sent=float(second % 10))], START + second)
    recorder.close()
    again = Recorder(file)
    day = again.history(86_400, START + 7200)
    assert day.step == 10 and len(day.times) == 720
    assert set(day.links["lte"].sent) == {4.5}
    week = again.history(7 * 86_400, START + 7200)
    assert week.step == 300 and len(week.times) == 24
    assert again.history(300, START + 7200).times == ()


def test_what_is_not_known_is_not_counted_as_nothing(tmp_path: Path) -> None:
    recorder = recorded(tmp_path / "history.sqlite", 100, sent=None)
    assert set(recorder.history(86_400, START + 100).links["lte"].sent) == {None}


def test_a_link_that_comes_late_has_no_past(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.sqlite")
    recorder.add([link("a")], START)
    recorder.add([link("a"), link("b")], START + 1)
    assert recorder.history(300, START + 1).links["b"].sent == (None, 1e6)


def test_old_rows_go(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorded(file, 120).close()
    later = recorded(file, 120, start=START + COARSE[10] + 1000)
    later.close()
    assert len(later.history(86_400, START + COARSE[10] + 1000 + 120).times) == 12
    assert len(later.history(7 * 86_400, START + COARSE[10] + 1000 + 120).times) == 2


def test_a_clock_that_is_set_back_voids_the_future(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorder = recorded(file, 120, start=START + 100_000)
    for second in range(120):
        recorder.add([link(sent=7.0)], START + second)
    assert set(recorder.history(300, START + 119).links["lte"].sent) == {7.0}
    recorder.close()
    assert max(Recorder(file).history(7 * 86_400, START + 200_000).times, default=0) < START + 200


@pytest.mark.parametrize("content", [b"", b"no database", b"\0" * 8192])
def test_a_damaged_file_is_put_aside(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(content)
    recorder = recorded(file, 200)
    assert recorder.failure is None
    recorder.close()
    assert len(Recorder(file).history(86_400, START + 200).times) >= 14


@pytest.mark.skipif(not Path("/dev/full").exists() or os.geteuid() != 0, reason="needs root and /dev/full")
def test_a_file_that_cannot_be_written_is_told_and_memory_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")  # no folder: nothing can be made below it
    recorder = recorded(folder / "history.sqlite", 200)
    assert recorder.failure is not None and "history.sqlite" in recorder.failure
    assert len(recorder.history(300, START + 199).times) == 200
    assert len(recorder.history(86_400, START + 199).times) >= 18
