import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tributary.daemons.logs import (
    Entry,
    Level,
    Limit,
    Log,
    Value,
    as_journal_text,
    as_json,
    as_text,
    is_journal,
    printable,
)

HOSTILE = 'x\nhold subflow="fake"\x1b[2J\u2028\x85\udcff'


def entry(level: Level = Level.INFO, **fields: Value) -> Entry:
    return Entry(1_700_000_000.1234, level, "hold", fields)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_text_is_time_event_and_fields_and_for_the_journal_level_and_no_time() -> None:
    line = as_text(entry(subflow="10.0.1.1:3128>10.0.1.2:40000", rate="5mbit", classes=2, dry=False, path=None))
    assert line == (
        "2023-11-14T22:13:20.123Z hold subflow=10.0.1.1:3128>10.0.1.2:40000 rate=5mbit classes=2 dry=false path=-"
    )
    assert as_journal_text(entry(Level.WARNING, rule="slow")) == "<4>warning: hold rule=slow"


@pytest.mark.parametrize(
    ("value", "text"), [("", '""'), ("two words", '"two words"'), ("a=b", '"a=b"'), ('a"b', r'"a\"b"'), ("-", '"-"')]
)
def test_values_are_quoted_where_a_reader_could_be_misled(value: str, text: str) -> None:
    assert as_journal_text(entry(reason=value)) == f"<6>hold reason={text}"


@pytest.mark.parametrize("write", [as_text, as_journal_text, as_json])
def test_no_value_breaks_a_line(write: object) -> None:
    assert callable(write)
    line = write(entry(reason=HOSTILE))
    assert line.isprintable() and len(line.splitlines()) == 1


def test_json_is_one_object_with_the_fields_beside_the_head() -> None:
    assert json.loads(as_json(entry(Level.ERROR, reason=HOSTILE, number=3))) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "error",
        "event": "hold",
        "reason": HOSTILE,
        "number": 3,
    }


def test_no_field_takes_the_place_of_the_head_and_what_prints_is_left_alone() -> None:
    assert json.loads(as_json(entry(event="release")))["event"] == "hold"
    assert printable("Zürich → 10.0.0.1") == "Zürich → 10.0.0.1"
    assert printable("a\x1b\n") == r"a\x1b\n"


def test_a_flood_of_one_event_is_cut_and_counted_and_others_pass() -> None:
    stream, clock = io.StringIO(), Clock()
    log = Log(as_journal_text, stream, clock, most=2)
    for _ in range(5):
        log.event("join")
    log.event("hold")
    clock.now += 1
    log.event("join")
    log.close()
    assert stream.getvalue().splitlines() == [
        "<6>join",
        "<6>join",
        "<6>hold",
        "<4>warning: join suppressed=3",
        "<6>join",
    ]


def test_the_count_is_reported_also_when_no_event_follows() -> None:
    stream, clock = io.StringIO(), Clock()
    log = Log(as_journal_text, stream, clock, most=1)
    log.event("join")
    log.event("join")
    log.flush()
    assert "suppressed" not in stream.getvalue()
    clock.now += 1
    log.flush()
    assert stream.getvalue().endswith("join suppressed=1\n")


def test_a_clock_that_is_set_back_does_not_silence_an_event() -> None:
    limit = Limit(1)
    assert limit.admits("join", 1000.0) and not limit.admits("join", 1000.5)
    assert limit.over(10.0) == {"join": 1}
    assert limit.admits("join", 10.0)


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    with Path(os.devnull).open(encoding="ascii") as read_only:
        Log(stream=read_only).event("hold")
    Log(stream=read_only).event("hold")


def test_the_journal_is_known_by_device_and_inode() -> None:
    reader, writer = os.pipe()
    try:
        status = os.fstat(writer)
        assert is_journal({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, writer)
        assert not is_journal({"JOURNAL_STREAM": "1:2"}, writer)
        assert not is_journal({}, writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_threads_log_beside_each_other() -> None:
    """Each event has a window of its own, of which all are looked at with each line."""
    log = Log(stream=io.StringIO(), clock=lambda: 0.0)

    def work(number: int) -> None:
        for each in range(300):
            log.event(f"event {number} {each}")
            log.flush()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
    finally:
        sys.setswitchinterval(before)
