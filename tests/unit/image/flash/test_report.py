"""What is shown while it runs."""

import json

import pytest

from image.flash.pace import Pace, Progress
from image.flash.report import Json, Text, progress_line

MB = 10**6


def test_the_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace("write", 1000 * MB, now=100.0)
    for second in range(1, 11):  # the card's cache takes 40 MB a second
        pace.at(100.0 + second, second * 40 * MB)
    for second in range(11, 31):  # and then 10
        progress = pace.at(100.0 + second, 400 * MB + (second - 10) * 10 * MB)
    assert progress == Progress("write", 600 * MB, 1000 * MB, rate=10 * MB, seconds_left=40.0)


def test_there_is_no_estimate_before_anything_is_done() -> None:
    assert Pace("write", 10, now=1.0).at(1.0, 0) == Progress("write", 0, 10, None, None)


def test_what_stands_still_has_no_estimate() -> None:
    pace = Pace("write", 100, now=0.0)
    for second in range(30):
        progress = pace.at(float(second), 50)
    assert (progress.rate, progress.seconds_left) == (None, None)


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress("write", 0, 200, None, None), "write        0 %, 0 B of 200 B"),
        (
            Progress("write", 50 * MB, 200 * MB, 2.0 * MB, 75.0),
            "write       25 %, 50.0 MB of 200 MB, 2.00 MB/s, 1:15 left",
        ),
        (Progress("read back", 5, 5, 5.0, 0.0), "read back  100 %, 5 B of 5 B, 5 B/s"),
        (Progress("check", 0, 0, None, None), "check      100 %, 0 B of 0 B"),
    ],
)
def test_a_person_reads_how_far_it_is(progress: Progress, line: str) -> None:
    assert progress_line(progress) == line


def test_a_step_shows_its_beginning_and_its_end_even_if_it_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    with Text().step("write", 100) as advance:
        advance(50)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line[:16] for line in shown.err.splitlines()] == ["write        0 %", "write      100 %"]


def test_a_step_that_failed_does_not_claim_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Text().step("write", 100):
        raise KeyboardInterrupt
    assert "100 %" not in capsys.readouterr().err


def test_a_program_reads_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with Json().step("write", 100) as advance:
        advance(50)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["step"], line["bytes"], line["of"]) for line in lines] == [
        ("progress", "write", 0, 100),
        ("progress", "write", 100, 100),
    ]
