"""Whether a conversation in the tunnel for everything else has lost its other half. Pure: the clock is the caller's.

A link may go silent without a sign, and probes find that out in many seconds. Multipath TCP does in less than one, as
it sees acknowledgements. A call by UDP has nobody who would. But if it was answered and now goes on unanswered, the way
is worth a question at once.
"""

from collections import deque
from dataclasses import dataclass

SPAN = 0.3
"""Seconds without an answer that are worth a question."""
BEFORE = 3.0
"""Seconds before these in which both sides were heard."""
LEAST = 5
"""Packets that nobody answered, in that time: a call sends fifty a second."""
FAST, SLOW = 0.1, 1.0
"""Seconds between two counts, during a conversation and otherwise."""
PAUSE = 2.0
"""Seconds between two questions: what is sent may need no answer."""


@dataclass(frozen=True)
class Count:
    """Packets that an interface has sent and received up to a time in seconds."""

    time: float
    sent: int
    received: int


class Stillness:
    """The counts of the last few seconds."""

    def __init__(self) -> None:
        self._counts: deque[Count] = deque()
        self._asked = float("-inf")

    def forget(self) -> None:
        """The interface is another one, or gone."""
        self._counts.clear()

    @property
    def interval(self) -> float:
        """Seconds to the next count: few while both sides were heard in the last two seconds."""
        counts = self._counts
        if not counts:
            return SLOW
        before = next(each for each in counts if each.time >= counts[-1].time - 2 * SLOW)
        both = min(counts[-1].sent - before.sent, counts[-1].received - before.received)
        return FAST if both >= LEAST else SLOW

    def is_worth_a_question(self, count: Count) -> bool:
        """Whether with this count somebody sends and is no longer answered; once for each such time."""
        counts = self._counts
        counts.append(count)
        while counts[0].time < count.time - BEFORE - SPAN:
            counts.popleft()
        recent = next(each for each in counts if each.time >= count.time - SPAN)
        if count.time < self._asked + PAUSE or recent.time - counts[0].time < SPAN:
            return False
        was_answered = recent.sent > counts[0].sent and recent.received > counts[0].received
        is_alone = count.sent - recent.sent >= LEAST and count.received == recent.received
        if was_answered and is_alone:
            self._asked = count.time
            return True
        return False
