import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from command import mapping
from console.history import COARSE, SECONDS, Recorder
from tests.unit.full_disk import full_disk
from tributary.api.documents import Link

START = 1_800_000_000


def link(name: str = "lte", sent: float | None = 1e6) -> Link:
    return mapping.link(name=name, kind="path", state="up", sent_rate=sent, received_rate=0.0, rtt=0.02)


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
    assert day.step == 90 and len(day.times) == 80 and set(day.links["lte"].sent) == {4.5}
    week = again.history(7 * 86_400, START + 7200)
    assert week.step == 900 and len(week.times) <= 9 and set(week.links["lte"].sent) == {4.5}
    assert again.history(300, START + 7200).times == ()


def test_a_whole_day_has_a_thousand_points_at_most(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.sqlite")
    for second in range(0, 86_400, 5):
        recorder.add([link()], START + second)
    assert 900 < len(recorder.history(86_400, START + 86_400).times) <= 1000


def test_a_link_that_comes_late_has_no_past_and_what_is_not_known_is_not_counted_as_nothing(tmp_path: Path) -> None:
    recorder = recorded(tmp_path / "history.sqlite", 200, sent=None)
    recorder.close()
    assert set(recorder.history(86_400, START + 200).links["lte"].sent) == {None}
    recorder = Recorder(tmp_path / "history.sqlite")
    recorder.add([link("a")], START)
    recorder.add([link("a"), link("b")], START + 1)
    assert recorder.history(300, START + 1).links["b"].sent == (None, 1e6)


def test_old_rows_go(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorded(file, 120).close()
    later = recorded(file, SECONDS + 120, start=START + COARSE[10] + 1000)
    later.close()
    with later._database.opened() as connection:
        oldest = dict(connection.execute("SELECT step, MIN(time) FROM carried GROUP BY step"))
    assert oldest[10] > START + 1000 and oldest[300] <= START


@pytest.mark.parametrize("jump", [-31 * 86_400, 366 * 86_400])
def test_a_clock_that_is_wrong_for_a_while_takes_nothing_away(jump: int, tmp_path: Path) -> None:
    """As at the boot of a box without a clock of its own."""
    file = tmp_path / "history.sqlite"
    recorded(file, 7200).close()
    rows = len(Recorder(file).history(86_400, START + 7200).times)
    recorder = recorded(file, 120, start=START + 7200 + jump)
    recorder.add([link()], START + 7320)
    recorder.close()
    assert len(Recorder(file).history(86_400, START + 7320).times) >= rows


def test_a_start_that_fails_takes_nothing_away(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorded(file, 7200).close()
    before = Recorder(file).history(86_400, START + 7200)
    Recorder(file).close()
    assert Recorder(file).history(86_400, START + 7200) == before


def test_a_second_back_takes_a_second(tmp_path: Path) -> None:
    recorder = recorded(tmp_path / "history.sqlite", SECONDS)
    recorder.add([link(sent=7.0)], START + SECONDS - 2)
    history = recorder.history(SECONDS, START + SECONDS - 2)
    assert len(history.times) == len(set(history.times)) == SECONDS - 1
    assert history.links["lte"].sent[-1] == 7.0


def test_what_is_ahead_of_the_clock_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorded(file, 1200, start=START + 40_000).close()
    assert Recorder(file).history(86_400, START).times == ()
    recorder = recorded(file, SECONDS + 120)
    recorder.close()
    with recorder._database.opened() as connection:
        (newest,) = connection.execute("SELECT MAX(time) FROM carried").fetchone()
    assert newest < START + SECONDS + 120


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_a_damaged_file_is_put_aside(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(content)
    recorder = recorded(file, 200)
    assert recorder.failure is None
    recorder.close()
    assert Recorder(file).history(86_400, START + 200).times
    assert file.with_suffix(".broken").exists() is (content == b"no database")


@pytest.mark.parametrize(("more", "is_broken"), [("rtt REAL, to_come TEXT,", False), ("", True)])
def test_a_table_of_another_shape_is_put_aside_unless_it_only_has_more(
    more: str, is_broken: bool, tmp_path: Path
) -> None:
    file = tmp_path / "history.sqlite"
    columns = f"step INTEGER, time INTEGER, link TEXT, sent REAL, received REAL, {more} PRIMARY KEY (step, time, link)"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE carried ({columns}) WITHOUT ROWID")
    recorder = recorded(file, 200)
    recorder.close()
    assert recorder.failure is None and Recorder(file).history(86_400, START + 200).times
    assert file.with_suffix(".broken").exists() is is_broken


def test_a_file_that_cannot_be_written_is_told_and_memory_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")  # no folder: nothing can be made below it
    recorder = recorded(folder / "history.sqlite", 200)
    assert recorder.failure is not None and "history.sqlite" in recorder.failure
    assert len(recorder.history(300, START + 199).times) == 200
    assert recorder.history(86_400, START + 199).times == ()


def test_what_a_full_disk_could_not_take_is_written_later(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorder = recorded(file, 120)
    with full_disk():
        for second in range(120, 400):
            recorder.add([link()], START + second)
    assert recorder.failure is not None and "history.sqlite" in recorder.failure
    for second in range(400, 500):
        recorder.add([link()], START + second)
    assert recorder.failure is None
    recorder.close()
    assert Recorder(file).history(86_400, START + 499).times == tuple(range(START, START + 500, 90))
