"""Detects that traffic in the default tunnel gets no answers any more. Pure: the caller passes the clock.

A link may go silent without a sign. Probes find that out in many seconds; Multipath TCP does in less than one, by its
acknowledgements. A call by UDP has none. But if packets were answered and now are not, a probe at once is worth it.
"""

from collections import deque
from dataclasses import dataclass

SPAN = 0.3
"""Seconds without an answer that are a stall."""
BEFORE = 3.0
"""Seconds before these with traffic both ways."""
LEAST = 5
"""Packets without an answer in that time: a call sends fifty a second."""
FAST, SLOW = 0.1, 1.0
"""Seconds between two counts, with traffic both ways and otherwise."""
PAUSE = 2.0
"""Seconds between two stalls: the packets may need no answer."""


@dataclass(frozen=True)
class Count:
    """Packets that an interface has sent and received, at a time in seconds."""

    time: float
    sent: int
    received: int


class StallDetector:
    """The counts of the last few seconds."""

    def __init__(self) -> None:
        self._counts: deque[Count] = deque()
        self._reported = float("-inf")

    def reset(self) -> None:
        """The interface is another one, or gone."""
        self._counts.clear()

    @property
    def interval(self) -> float:
        """Seconds to the next count: short while there was traffic both ways in the last two seconds."""
        counts = self._counts
        if not counts:
            return SLOW
        before = next(each for each in counts if each.time >= counts[-1].time - 2 * SLOW)
        both = min(counts[-1].sent - before.sent, counts[-1].received - before.received)
        return FAST if both >= LEAST else SLOW

    def is_stalled(self, count: Count) -> bool:
        """Whether packets are sent and not answered any more, with this count; true once for each stall."""
        counts = self._counts
        counts.append(count)
        while counts[0].time < count.time - BEFORE - SPAN:
            counts.popleft()
        recent = next(each for each in counts if each.time >= count.time - SPAN)
        if count.time < self._reported + PAUSE or recent.time - counts[0].time < SPAN:
            return False
        was_answered = recent.sent > counts[0].sent and recent.received > counts[0].received
        is_alone = count.sent - recent.sent >= LEAST and count.received == recent.received
        if was_answered and is_alone:
            self._reported = count.time
            return True
        return False
