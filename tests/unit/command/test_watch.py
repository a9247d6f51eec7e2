"""Rates from two looks, and the view that they are shown in."""

import io
import json
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from command import watch
from command.lists import Interval
from command.monitor import Seen, changes
from command.show import CLASSES, LINKS, SESSIONS, Listed, Selection
from command.watch import with_rates
from tests.unit.command.test_show import link
from tests.unit.throttler.answer import answer, session
from throttler.service.status import Status
from tributary.api.documents import Document, HtbClass, Link, Session
from tributary.settings.errors import CommandError, Exit

SECOND = Interval.parse("1s")


def later(seconds: float = 2.0, sent: int = 0, received: int = 0, dropped: int = 0) -> Status:
    """The answer ``seconds`` after the first, with counters of the class and the first subflow grown."""
    first = answer()
    entry, (throttled, free) = first.classes[0], first.sessions[0].subflows
    assert entry.sent is not None and entry.dropped is not None
    assert throttled.sent is not None and throttled.received is not None
    entry = entry.model_copy(update={"sent": entry.sent + sent, "dropped": entry.dropped + dropped})
    grown = {"sent": throttled.sent + sent, "received": throttled.received + received}
    throttled = throttled.model_copy(update=grown)
    return answer(
        uptime_s=first.uptime_s + seconds, classes=(entry,), sessions=(session(first, subflows=(throttled, free)),)
    )


def sessions(status: Status) -> Listed[Session]:
    return Listed(status.sessions, status.uptime_s, status.sessions_total)


def classes(status: Status) -> Listed[HtbClass]:
    return Listed(status.classes, status.uptime_s, status.classes_total)


def test_rates_are_differences_by_the_daemons_clock() -> None:
    after = later(2.0, sent=1_000_000, received=500, dropped=10)
    (entry,) = with_rates(classes(answer()), classes(after)).documents
    assert entry.sent_rate == pytest.approx(4e6) and entry.drop_rate == pytest.approx(5)
    (one,) = with_rates(sessions(answer()), sessions(after)).documents
    assert one.sent_rate == pytest.approx(4e6) and one.received_rate == pytest.approx(2000)
    assert one.subflows[0].sent_rate == pytest.approx(4e6)


@pytest.mark.parametrize("before", [None, answer(uptime_s=99.0), later(2.0)])
def test_without_an_earlier_answer_of_the_same_daemon_no_rate_is_known(before: Status | None) -> None:
    (one,) = with_rates(sessions(before) if before else None, sessions(later(2.0))).documents
    assert one.sent_rate is None


def test_a_counter_that_was_set_back_has_no_rate() -> None:
    (entry,) = with_rates(classes(later(0.0, sent=1_000)), classes(later(2.0))).documents
    assert entry.sent_rate is None and entry.drop_rate == 0


def test_a_session_that_loses_a_subflow_keeps_the_rate_of_the_others() -> None:
    after = later(2.0, sent=1_000_000)
    one = session(after, subflows=after.sessions[0].subflows[:1])
    alone = after.model_copy(update={"sessions": (one,)})
    (one,) = with_rates(sessions(answer()), sessions(alone)).documents
    assert one.sent_rate == pytest.approx(4e6)


def looks(*outcomes: Listed[Link] | CommandError) -> Callable[[], Listed[Link]]:
    """One outcome a look, and then Ctrl-C."""
    left: Iterator[Listed[Link] | CommandError] = iter(outcomes)

    def look() -> Listed[Link]:
        outcome = next(left, None)
        if outcome is None:
            raise KeyboardInterrupt
        if isinstance(outcome, CommandError):
            raise outcome
        return outcome

    return look


def watched(*outcomes: Listed[Link] | CommandError, terminal: bool = False, as_json: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=60, height=6)
    with pytest.raises(KeyboardInterrupt):
        watch.watch("links", looks(*outcomes), LINKS, Selection(as_json), SECOND, console, lambda _: None)
    return file.getvalue()


def test_each_look_is_shown_and_one_that_fails_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    shown = watched(
        Listed([link("a")], 1.0), CommandError(Exit.UNAVAILABLE, "no throttler runs"), Listed([link("b")], 2.0)
    )
    assert [line.split()[0] for line in shown.splitlines()] == ["link", "a", "link", "b"]
    assert "no throttler runs: asked again" in capsys.readouterr().err


def test_what_is_wrong_at_the_first_look_ends_it() -> None:
    with pytest.raises(CommandError, match="no throttler runs"):
        watched(CommandError(Exit.UNAVAILABLE, "no throttler runs"))


def test_a_terminal_shows_what_it_has_room_for_and_says_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = watched(Listed([link(f"link{number}") for number in range(9)], 1.0, 20), terminal=True)
    assert "link2" in shown and "link3" not in shown and "the first 3 of 20" in shown


def test_a_dumb_terminal_shows_each_look_below_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    shown = watched(Listed([link("a")], 1.0), Listed([link("b")], 2.0), terminal=True)
    assert [line.split()[0] for line in shown.splitlines()] == ["link", "a", "link", "b"]


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    watched(Listed([link("a")], 1.0), Listed([link("a")], 2.0), as_json=True)
    assert [json.loads(line)["links"][0]["name"] for line in capsys.readouterr().out.splitlines()] == ["a", "a"]


def test_rates_are_shown_where_they_are_known() -> None:
    after = with_rates(sessions(answer()), sessions(later(2.0, sent=1_000_000)))
    titles = {column.title: column.cell(after.documents[0]) for column in SESSIONS}
    assert titles["sending"] == "4.00 Mbit/s"
    dropping = with_rates(classes(answer()), classes(later(2.0, dropped=10))).documents[0]
    assert {column.title: column.cell(dropping) for column in CLASSES}["drops/s"] == "5"


@pytest.mark.parametrize("wrong", ["0s", "1", "100ms", "2h"])
def test_an_interval_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="from '500ms' to '3600s'"):
        Interval.parse(wrong)


def said(before: list[Document], after: list[Document]) -> list[str]:
    first, second = (seen(documents) for documents in (before, after))
    return [f"{change.change}: {change.text}" for change in changes(first, second, now=0.0)]


def seen(links: list[Document]) -> Seen:
    return {("link", each.key): each for each in links}


def test_a_link_that_fails_is_a_line_and_the_passing_of_time_is_none() -> None:
    assert said([link("lte", age=1.0, rtt=0.1)], [link("lte", age=2.0, rtt=0.2)]) == []
    down = link("lte", state="down", reason="no-carrier")
    assert said([link("lte")], [down]) == ["changed: link lte: down, no-carrier (was: up)"]


def test_what_comes_and_goes_is_named() -> None:
    assert said([], [link("dsl", download=9_000_000)]) == ["new: link dsl: up, 9.00 Mbit/s down"]
    assert said([link("dsl")], []) == ["gone: link dsl is gone"]
