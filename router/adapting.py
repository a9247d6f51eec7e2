"""Rates of a link that changes, such as LTE: as high as its delay stays low. Pure: the clock is the caller's.

A probe's round trip beyond what it takes on an idle link is what packets wait in queues that are not ours. If two of
the last four wait too long, the direction that carries more is made slower, below what came through of late, and if
none does, a direction that is used up is made faster in small steps. So the rate goes around the link's own. The idea
is that of cake-autorate, for CAKE on OpenWrt; the steps and numbers here are our own.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

SLACK = 0.05
"""Seconds that a probe may take longer than on an idle link: more than our own queues hold, in both directions."""
JUDGED, LATE = 4, 2
"""Probes that count, and how many of these may not be late."""
LEAST = 0.1
"""Of the rate in the settings: it never gets slower than this share."""
SLOWER, BELOW, MOST_AT_ONCE = 0.85, 0.95, 0.5
"""A cut goes to this share of the rate, or of what came through if that is less, but not below half of the rate."""
FASTER = 1.05
FULL = 0.75
"""Share of its rate that a direction carries when it could use more."""
BUSY = 0.02
"""Share of its rate in the settings from which a direction is in use."""
AFTER_CUT, AFTER_RAISE = 0.6, 0.4
"""Seconds until a change shows."""
AGAIN = 10.0
"""Seconds at the least rate after which what delay is left is taken for the path's own."""
OFTEN, RARELY = 0.2, 1.0
"""Seconds between two counts of bytes, in use and idle; each in use brings a probe."""
_WINDOW = 0.6
"""Seconds over which bytes are counted."""


class Way(Enum):
    """A direction."""

    DOWN = 0
    UP = 1


@dataclass(frozen=True)
class Bytes:
    """What an interface has received and sent up to a time in seconds."""

    time: float
    received: int
    sent: int

    def of(self, way: Way) -> int:
        """In one direction."""
        return self.received if way is Way.DOWN else self.sent


class Adapter:
    """One link; ``most`` are the rates in the settings, in bits per second, of the directions that have one."""

    def __init__(self, download: int | None, upload: int | None) -> None:
        given = {Way.DOWN: download, Way.UP: upload}
        self.most = {way: rate for way, rate in given.items() if rate is not None}
        self.rates = dict(self.most)
        self.idle_rtt: float | None = None
        self._counts: deque[Bytes] = deque()
        self._late: deque[bool] = deque(maxlen=JUDGED)
        self._seen: deque[tuple[float, float]] = deque()
        self._cut, self._raised = float("-inf"), float("-inf")

    def count(self, count: Bytes) -> None:
        """Hear what was carried; counters that went back are another interface's."""
        if self._counts and min(count.received - self._counts[-1].received, count.sent - self._counts[-1].sent) < 0:
            self._counts.clear()
        self._counts.append(count)
        while len(self._counts) > 2 and self._counts[1].time <= count.time - _WINDOW:
            self._counts.popleft()

    def carries(self, way: Way) -> float:
        """Bits per second of late."""
        if len(self._counts) < 2:
            return 0.0
        first, last = self._counts[0], self._counts[-1]
        return 8 * (last.of(way) - first.of(way)) / max(last.time - first.time, 1e-3)

    @property
    def is_busy(self) -> bool:
        """Whether a direction is in use."""
        return any(self.carries(way) >= BUSY * most for way, most in self.most.items())

    @property
    def interval(self) -> float:
        """Seconds to the next count."""
        return OFTEN if self.is_busy else RARELY

    def told(self, rtt: float | None, now: float) -> bool:
        """Hear what a probe took in seconds, None if it got no answer; returns whether the rates have changed."""
        if not self.is_busy:
            self._learn(rtt)
            return False
        if rtt is not None:
            self.idle_rtt = rtt if self.idle_rtt is None else min(self.idle_rtt, rtt)
            self._seen.append((now, rtt))
        while self._seen and self._seen[0][0] < now - AGAIN:
            self._seen.popleft()
        self._late.append(rtt is None or self.idle_rtt is None or rtt > self.idle_rtt + SLACK)
        if sum(self._late) >= LATE:
            return self._slower(now)
        return not any(self._late) and self._faster(now)

    def forget(self) -> bool:
        """Nobody answers any more, by whichever link: what that has slowed is undone. Returns whether rates changed."""
        before, self.rates = self.rates, dict(self.most)
        self._late.clear()
        self._seen.clear()
        return self.rates != before

    def _learn(self, rtt: float | None) -> None:
        """On an idle link: a shorter time counts at once, a longer one by and by."""
        self._late.clear()
        self._seen.clear()
        if rtt is not None:
            known = self.idle_rtt
            self.idle_rtt = rtt if known is None else min(rtt, known + 0.1 * (rtt - known))

    def _slower(self, now: float) -> bool:
        if now < self._cut + AFTER_CUT:
            return False
        shares = {way: self.carries(way) / most for way, most in self.most.items()}
        before = dict(self.rates)
        for way, share in shares.items():
            if share >= BUSY and share >= max(shares.values()) / 2:
                rate = self.rates[way]
                aim = max(MOST_AT_ONCE * rate, min(SLOWER * rate, BELOW * self.carries(way)))
                self.rates[way] = int(max(LEAST * self.most[way], aim))
        if self.rates == before:
            self._take_for_idle(now)
            return False
        self._cut = now
        return True

    def _take_for_idle(self, now: float) -> None:
        if self._seen and now >= self._cut + AGAIN:
            self.idle_rtt = min(rtt for _, rtt in self._seen)
            self._late.clear()

    def _faster(self, now: float) -> bool:
        if len(self._late) < JUDGED or now < max(self._raised + AFTER_RAISE, self._cut + AFTER_CUT):
            return False
        before = dict(self.rates)
        for way, rate in before.items():
            if self.carries(way) >= FULL * rate:
                self.rates[way] = min(self.most[way], int(FASTER * rate))
        if self.rates == before:
            return False
        self._raised = now
        return True
