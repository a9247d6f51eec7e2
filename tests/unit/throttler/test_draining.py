from throttler.sources.draining import PAUSE, DrainFilter
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple

FIRST = FourTuple("10.0.0.1", 3128, "10.0.1.2", 40000)
JOINED = FourTuple("10.0.0.1", 3128, "10.0.2.2", 40001)
OPENED: tuple[Event, ...] = tuple(SubflowEstablished(0, 7, each, "wired") for each in (FIRST, JOINED))
CLOSED = SessionClosed(5, 7, Ended.CLOSED)


class Script:
    """``sending`` are the subflows that have data to send; ``asked`` is how often somebody wanted to know."""

    def __init__(self, *sending: FourTuple) -> None:
        self.sending = set(sending)
        self.asked = 0
        self.drain_filter = DrainFilter(self._sends)

    def _sends(self, subflow: FourTuple) -> bool:
        self.asked += 1
        return subflow in self.sending

    def at(self, now: int, *events: Event) -> list[Event]:
        """What comes out when these come in."""
        return list(self.drain_filter.filter(events, now))


def closed(*sending: FourTuple) -> Script:
    script = Script(*sending)
    assert script.at(0, *OPENED, CLOSED) == [*OPENED]
    return script


def test_a_session_that_has_sent_all_ends_one_pause_later() -> None:
    script = closed()
    assert script.at(PAUSE - 1) == []
    assert script.asked == 0
    assert script.at(PAUSE) == [CLOSED]
    assert script.at(9 * PAUSE) == []


def test_a_session_stays_as_long_as_a_subflow_sends() -> None:
    script = closed(FIRST, JOINED)
    assert script.at(PAUSE) == []
    script.sending = {JOINED}
    assert script.at(2 * PAUSE) == [SubflowClosed(2 * PAUSE, 7, FIRST, Ended.CLOSED)]
    assert script.at(3 * PAUSE) == []
    script.sending = set()
    assert script.at(4 * PAUSE) == [CLOSED]


def test_subflows_that_were_closed_before_are_not_asked_about() -> None:
    script = Script(FIRST, JOINED)
    over = [SubflowClosed(1, 7, each, Ended.RESET) for each in (FIRST, JOINED)]
    assert script.at(0, *OPENED, *over, CLOSED) == [*OPENED, *over]
    assert script.at(PAUSE) == [CLOSED]
    assert script.asked == 0


def test_a_scan_that_does_not_find_a_closed_subflow_takes_no_limit_from_what_it_sends() -> None:
    script = closed(FIRST)
    missed = [SubflowClosed(6, 7, each, Ended.GONE) for each in (FIRST, JOINED)]
    assert script.at(6, *missed) == []
    assert script.at(PAUSE) == [SubflowClosed(PAUSE, 7, JOINED, Ended.CLOSED)]
    # One that it knows nothing of, or no more, has ended.
    assert script.at(PAUSE + 1, *missed) == missed[1:]
    script.sending = set()
    assert script.at(2 * PAUSE) == [CLOSED]
    opened = script.at(2 * PAUSE, OPENED[0])
    assert [*opened, *script.at(2 * PAUSE, missed[0])] == [OPENED[0], missed[0]]


def test_many_ends_at_once_are_looked_at_in_several_rounds() -> None:
    script = Script()
    opened = [SubflowEstablished(0, token, FourTuple("10.0.0.1", 3128, "10.0.1.2", token), "") for token in range(200)]
    ends = [SessionClosed(0, token, Ended.CLOSED) for token in range(200)]
    assert script.at(0, *opened, *ends) == opened
    assert not script.drain_filter.has_due(PAUSE - 1)
    rounds = [(script.drain_filter.has_due(PAUSE), len(script.at(PAUSE))) for _ in range(5)]
    assert rounds == [(True, 64), (True, 64), (True, 64), (True, 8), (False, 0)]


def test_a_closed_session_does_not_stay_for_what_another_one_sends_from_the_same_ports() -> None:
    script = closed(FIRST)
    again = SubflowEstablished(6, 8, FIRST, "wired")
    assert script.at(6, again) == [again]
    assert script.at(PAUSE) == [CLOSED]
    # The old subflow's end, told late, is not that of the new one.
    late = SubflowClosed(7, 7, FIRST, Ended.RESET)
    assert script.at(PAUSE, late) == [late]
    ended = SessionClosed(8, 8, Ended.CLOSED)
    assert script.at(PAUSE, ended) == []
    assert script.at(2 * PAUSE) == []
    script.sending = set()
    assert script.at(3 * PAUSE) == [ended]
