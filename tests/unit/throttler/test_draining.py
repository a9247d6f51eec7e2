from throttler.sources.draining import PAUSE, DrainFilter
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple

FIRST = FourTuple("10.0.0.1", 3128, "10.0.1.2", 40000)
JOINED = FourTuple("10.0.0.1", 3128, "10.0.2.2", 40001)
OPENED: tuple[Event, ...] = tuple(SubflowEstablished(0, 7, each, "wired") for each in (FIRST, JOINED))
CLOSED = SessionClosed(5, 7, Ended.CLOSED)


class Kernel:
    """``sending`` are the subflows that have data to send; ``asked`` is how often somebody wanted to know."""

    def __init__(self, *sending: FourTuple) -> None:
        self.sending = set(sending)
        self.asked = 0

    def sends(self, subflow: FourTuple) -> bool:
        self.asked += 1
        return subflow in self.sending


def closed(kernel: Kernel) -> DrainFilter:
    drain_filter = DrainFilter(kernel.sends)
    assert list(drain_filter.filter((*OPENED, CLOSED), 0)) == [*OPENED]
    return drain_filter


def test_a_session_that_has_sent_all_ends_one_pause_later() -> None:
    kernel = Kernel()
    drain_filter = closed(kernel)
    assert list(drain_filter.filter((), PAUSE - 1)) == []
    assert kernel.asked == 0
    assert list(drain_filter.filter((), PAUSE)) == [CLOSED]
    assert list(drain_filter.filter((), 9 * PAUSE)) == []


def test_a_session_stays_as_long_as_a_subflow_sends() -> None:
    kernel = Kernel(FIRST, JOINED)
    drain_filter = closed(kernel)
    assert list(drain_filter.filter((), PAUSE)) == []
    kernel.sending = {JOINED}
    assert list(drain_filter.filter((), 2 * PAUSE)) == [SubflowClosed(2 * PAUSE, 7, FIRST, Ended.CLOSED)]
    assert list(drain_filter.filter((), 3 * PAUSE)) == []
    kernel.sending = set()
    assert list(drain_filter.filter((), 4 * PAUSE)) == [CLOSED]


def test_subflows_that_were_closed_before_are_not_asked_about() -> None:
    kernel = Kernel(FIRST, JOINED)
    drain_filter = DrainFilter(kernel.sends)
    over = [SubflowClosed(1, 7, each, Ended.RESET) for each in (FIRST, JOINED)]
    assert list(drain_filter.filter((*OPENED, *over, CLOSED), 0)) == [*OPENED, *over]
    assert list(drain_filter.filter((), PAUSE)) == [CLOSED]
    assert kernel.asked == 0


def test_many_ends_at_once_are_looked_at_in_several_rounds() -> None:
    kernel = Kernel()
    drain_filter = DrainFilter(kernel.sends)
    opened = [SubflowEstablished(0, token, FourTuple("10.0.0.1", 3128, "10.0.1.2", token), "") for token in range(200)]
    ends = [SessionClosed(0, token, Ended.CLOSED) for token in range(200)]
    assert list(drain_filter.filter((*opened, *ends), 0)) == opened
    rounds = [len(list(drain_filter.filter((), PAUSE))) for _ in range(5)]
    assert rounds == [64, 64, 64, 8, 0]


def test_a_closed_session_does_not_stay_for_what_another_one_sends_from_the_same_ports() -> None:
    kernel = Kernel(FIRST)
    drain_filter = closed(kernel)
    again = SubflowEstablished(6, 8, FIRST, "wired")
    assert list(drain_filter.filter((again,), 6)) == [again]
    assert list(drain_filter.filter((), PAUSE)) == [CLOSED]
    # The old subflow's end, told late, is not that of the new one.
    late = SubflowClosed(7, 7, FIRST, Ended.RESET)
    assert list(drain_filter.filter((late,), PAUSE)) == [late]
    ended = SessionClosed(8, 8, Ended.CLOSED)
    assert list(drain_filter.filter((ended,), PAUSE)) == []
    assert list(drain_filter.filter((), 2 * PAUSE)) == []
    kernel.sending = set()
    assert list(drain_filter.filter((), 3 * PAUSE)) == [ended]
