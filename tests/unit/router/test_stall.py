from collections.abc import Callable
from itertools import pairwise

import pytest

from router.links.stall import Count, StallDetector

EACH = 0.1


def asked(sent: Callable[[float], int], received: Callable[[float], int], seconds: float = 10.0) -> list[float]:
    """When questions are asked, of an interface that is looked at each tenth of a second."""
    stillness = StallDetector()
    times = [number * EACH for number in range(int(seconds / EACH))]
    return [time for time in times if stillness.is_stalled(Count(time, sent(time), received(time)))]


def steadily(time: float) -> int:
    """A call's packets, fifty a second."""
    return int(50 * time)


def until(end: float) -> Callable[[float], int]:
    """The same that ends."""
    return lambda time: steadily(min(time, end))


def test_a_call_is_asked_about_at_once_when_it_is_no_longer_answered_and_not_all_the_time() -> None:
    assert asked(steadily, steadily) == []
    found = asked(steadily, until(5.0))
    assert found[0] == pytest.approx(5.3, abs=0.11)
    assert all(later - earlier >= 2.0 for earlier, later in pairwise(found))
    # Behind three seconds nobody was heard for as long as is looked back: it is no conversation any more.
    assert found[-1] < 9.0


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (until(5.0), until(5.0)),
        (steadily, lambda _: 7),
        (lambda _: 7, steadily),
        (lambda time: int(2 * time), until(5.0)),
        (lambda _: 0, lambda _: 0),
    ],
    ids=["a call that ends", "one that nobody answers", "one that only listens", "few packets", "nothing"],
)
def test_what_is_no_conversation_is_left_alone(sent: Callable[[float], int], received: Callable[[float], int]) -> None:
    assert asked(sent, received) == []


def test_another_interface_begins_anew() -> None:
    stillness = StallDetector()
    for number in range(20):
        assert not stillness.is_stalled(Count(number * EACH, 5 * number, 5 * number))
    stillness.reset()
    assert not stillness.is_stalled(Count(2.3, 200, 5))


def test_a_conversation_is_looked_at_often_and_everything_else_now_and_then() -> None:
    stillness, time, intervals = StallDetector(), 0.0, []
    while time < 12.0:
        talking = steadily(min(time, 6.0))
        stillness.is_stalled(Count(time, talking, talking))
        intervals.append(stillness.interval)
        time += stillness.interval + 0.003
    assert intervals[:2] == [1.0, 0.1]
    assert intervals[-1] == 1.0
