"""Rates from two answers, and the view that they are shown in."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from rich.console import Console

from tests.unit.throttler.answer import answer, session, unread
from throttler.service.status import QuotaStatus, Status
from throttler.watch import Interval, Rows, plain_line, quota_bar, rows, screen, watch
from tributary.settings.errors import CommandError, Exit

SECOND = Interval.parse("1s")


def later(seconds: float = 2.0, sent_bytes: int = 0, received_bytes: int = 0, dropped_packets: int = 0) -> Status:
    """The answer ``seconds`` after the first, with counters of the class and the first subflow grown."""
    first = answer()
    entry, (throttled, free) = first.classes[0], first.sessions[0].subflows
    assert entry.counters is not None and throttled.sent_bytes is not None and throttled.received_bytes is not None
    counters = replace(
        entry.counters,
        sent_bytes=entry.counters.sent_bytes + sent_bytes,
        dropped_packets=entry.counters.dropped_packets + dropped_packets,
    )
    throttled = replace(
        throttled,
        sent_bytes=throttled.sent_bytes + sent_bytes,
        received_bytes=throttled.received_bytes + received_bytes,
    )
    return answer(
        uptime_s=12.3 + seconds,
        classes=(replace(entry, counters=counters),),
        sessions=(session(first, subflows=(throttled, free)),),
    )


def many(count: int) -> Status:
    """An answer with many sessions and classes."""
    return answer(
        sessions_total=count,
        classes_total=count,
        sessions=tuple(session(answer(), token=f"{number:08x}") for number in range(count)),
        classes=tuple(replace(answer().classes[0], id=f"5452:{number:x}") for number in range(count)),
    )


def test_rates_are_differences_by_the_daemons_clock() -> None:
    table = rows(answer(), later(2.0, sent_bytes=1_000_000, dropped_packets=10, received_bytes=500))
    assert table.classes[0].sent == pytest.approx(4e6)
    assert table.classes[0].drops == pytest.approx(5)
    assert table.sessions[0].subflows[0].received == pytest.approx(2000)
    assert table.through("download") == pytest.approx(4e6) and table.through("upload") is None


@pytest.mark.parametrize("before", [None, answer(uptime_s=99.0), answer(uptime_s=14.3)])
def test_without_an_earlier_answer_of_the_same_daemon_no_rate_is_known(before: Status | None) -> None:
    table = rows(before, later(2.0))
    assert table.classes[0].sent is None and table.sessions[0].sent is None


def test_a_counter_that_was_set_back_gives_no_rate() -> None:
    assert rows(answer(), later(sent_bytes=-1)).classes[0].sent is None


def test_a_class_id_that_went_to_another_owner_gives_no_rate() -> None:
    after = later(sent_bytes=1000)
    another = replace(after.classes[0], owner="10.0.1.2:50000")
    assert rows(answer(), replace(after, classes=(another,))).classes[0].sent is None


def test_a_class_that_could_not_be_read_has_no_rate_now_or_at_the_next_look() -> None:
    for before, after in ((answer(), unread(later(sent_bytes=1000))), (unread(answer()), later(sent_bytes=1000))):
        table = rows(before, after)
        assert (table.classes[0].sent, table.classes[0].drops, table.through("download")) == (None, None, None)


def test_a_class_that_could_not_be_read_says_so_in_the_view_and_on_the_plain_line() -> None:
    status = unread(answer())
    table = rows(answer(), status)
    text = "\n".join(line.plain for line in screen(status, table, 200, 24))
    assert "1 class (1 not read): down -, up -" in text
    assert "     not read of 5mbit         - drops/s  down wired 5452:1, wired-slow, 10.0.1.2:40000\n" in text
    assert plain_line(0, status, table).endswith(" unread=1")


def test_a_subflow_whose_socket_is_elsewhere_has_no_rate() -> None:
    table = rows(answer(), later(sent_bytes=1000))
    forwarded = next(row for row in table.sessions[0].subflows if row.name.startswith("["))
    assert forwarded.received is None and forwarded.sent == 0


def test_the_fastest_comes_first() -> None:
    before, grown = many(3), later(sent_bytes=9)
    counters = before.classes[0].counters
    assert counters is not None
    classes = tuple(
        replace(entry, counters=replace(counters, sent_bytes=counters.sent_bytes + 10 * number))
        for number, entry in enumerate(before.classes)
    )
    sessions = *before.sessions[:2], replace(before.sessions[2], subflows=grown.sessions[0].subflows)
    table = rows(before, replace(before, uptime_s=13.3, classes=classes, sessions=sessions))
    assert [row.name for row in table.classes] == ["wired 5452:2", "wired 5452:1", "wired 5452:0"]
    assert table.sessions[0].token == "00000002"


@pytest.mark.parametrize("height", [1, 2, 5, 10, 24, 200])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_view_fits_the_terminal(width: int, height: int) -> None:
    found = many(50)
    lines = screen(found, rows(None, found), width, height)
    assert len(lines) <= height and all(line.cell_len <= width for line in lines)


def test_what_has_no_room_is_counted() -> None:
    found = many(50)
    text = "\n".join(line.plain for line in screen(found, rows(None, found), 100, 24))
    assert "CLASSES" in text and "  and 47 more lines" in text
    assert "SESSIONS" in text and text.splitlines()[-1].endswith("more lines")


def test_the_view_of_a_daemon_without_sessions() -> None:
    found = answer(sessions=(), classes=(), rules=())
    assert len(screen(found, rows(None, found), 80, 24)) == 2


def test_a_quotas_bar_is_never_longer_than_itself() -> None:
    quota = QuotaStatus(bytes=1000, period="day", used=430, max_used=430, exhausted=0)
    assert quota_bar(quota) == "[####......] 43% of 1.00 kB a day"
    assert quota_bar(replace(quota, max_used=5000)) == "[##########] 500% of 1.00 kB a day"


def test_the_plain_line_has_rates_in_bits() -> None:
    table = rows(answer(), later(2.0, sent_bytes=1000))
    assert plain_line(0, answer(), table) == (
        "1970-01-01T00:00:00.000Z sessions=1 subflows=2 throttled=1 classes=1"
        " download=4000 upload=- drops=0 sent=4000 received=0"
    )
    assert "download=- " in plain_line(0, answer(), Rows((), ()))


def script(*steps: Status | CommandError) -> Callable[[], Status]:
    """Answers one after the other, then Ctrl-C."""
    left: Iterator[Status | CommandError] = iter(steps)

    def ask() -> Status:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        if isinstance(step, CommandError):
            raise step
        return step

    return ask


def test_into_a_pipe_goes_one_line_an_answer_and_a_restart_is_reported() -> None:
    gone = CommandError(Exit.UNAVAILABLE, "no throttler runs in this network namespace")
    stream = io.StringIO()
    waits: list[float] = []
    ask = script(answer(), later(sent_bytes=1000), gone, answer(uptime_s=0.1))
    watch(ask, SECOND, Console(file=stream), waits.append, lambda: 0.0)
    lines = stream.getvalue().splitlines()
    assert [line.split(" download=")[-1].split()[0] for line in lines if "download=" in line] == ["-", "4000", "-"]
    assert lines[2] == "1970-01-01T00:00:00.000Z no throttler runs in this network namespace"
    assert waits == [1.0] * 4


def test_in_a_terminal_the_screen_is_given_back_after_ctrl_c() -> None:
    gone = CommandError(Exit.UNAVAILABLE, "no throttler runs")
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=24, _environ={})
    watch(script(answer(), gone, later(sent_bytes=5)), SECOND, console, lambda _: None)
    text = stream.getvalue()
    assert "\x1b[?1049h" in text and "no throttler runs: retrying" in text and "SESSIONS" in text
    assert text.index("\x1b[?1049l") > text.rindex("SESSIONS")


@pytest.mark.parametrize("text", ["0s", "10ms", "1", "2h", "4000s"])
def test_an_interval_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="from '100ms'"):
        Interval.parse(text)
