"""Adapts the rates of a link whose capacity changes, such as LTE: as high as its delay stays low. Pure: the caller
passes the clock.

What a probe's round-trip time exceeds that of an idle link is queueing outside of this router. If two of the last four
probes are late, the busier direction is slowed to less than what it carried lately; if none is late, a direction with a
high load is raised slowly. So the rate follows that of the link. The idea is that of cake-autorate for CAKE on
OpenWrt; the numbers are different.
"""

from collections import deque
from enum import Enum

from tributary.kernel.state import Octets

SLACK = 0.05
"""Seconds that a probe may take longer than on an idle link: more than the queues of this router hold, both ways."""
WINDOW, LATE = 4, 2
"""Probes that count, and how many of these may not be late."""
MIN_SHARE = 0.1
"""The share of the configured rate that is the minimum."""
DECREASE, HEADROOM, MAX_STEP_DOWN = 0.85, 0.95, 0.5
"""A decrease goes to this share of the rate, or of the throughput if that is less, but not below half of the rate."""
INCREASE = 1.05
HIGH_LOAD = 0.75
"""Share of its rate above which a direction could use more."""
IDLE_BELOW = 0.02
"""Share of its configured rate below which a direction is idle."""
AFTER_DECREASE, AFTER_INCREASE = 0.6, 0.4
"""Seconds until a change has an effect."""
REBASELINE_AFTER = 10.0
"""Seconds at the minimum after which the remaining delay counts as that of the idle path."""
INTERVAL_BUSY, INTERVAL_IDLE = 0.2, 1.0
"""Seconds between two counts of bytes, in use and idle; each count in use sends a probe."""
_COUNT_WINDOW = 0.6
"""Seconds over which bytes are counted."""


class Direction(Enum):
    """Of packets, as seen from the LAN."""

    DOWN = 0
    UP = 1


class AutoRate:
    """One link; ``max_rates`` are the configured rates in bits per second, of the directions that have one."""

    def __init__(self, download: int | None, upload: int | None) -> None:
        configured = {Direction.DOWN: download, Direction.UP: upload}
        self.max_rates = {direction: rate for direction, rate in configured.items() if rate is not None}
        self.rates = dict(self.max_rates)
        self.idle_rtt: float | None = None
        self._counts: deque[tuple[float, Octets]] = deque()
        self._late: deque[bool] = deque(maxlen=WINDOW)
        self._rtts: deque[tuple[float, float]] = deque()
        self._decreased, self._increased = float("-inf"), float("-inf")

    def count(self, octets: Octets, now: float) -> None:
        """Takes a reading. Counters that went back are those of another interface."""
        before = self._counts[-1][1] if self._counts else octets
        if octets.received < before.received or octets.sent < before.sent:
            self._counts.clear()
        self._counts.append((now, octets))
        while len(self._counts) > 2 and self._counts[1][0] <= now - _COUNT_WINDOW:
            self._counts.popleft()

    def throughput(self, direction: Direction) -> float:
        """Bits per second lately."""
        if len(self._counts) < 2:
            return 0.0
        (began, first), (now, last) = self._counts[0], self._counts[-1]
        is_down = direction is Direction.DOWN
        return 8 * (last.received - first.received if is_down else last.sent - first.sent) / max(now - began, 1e-3)

    @property
    def is_busy(self) -> bool:
        return any(self.throughput(direction) >= IDLE_BELOW * most for direction, most in self.max_rates.items())

    @property
    def interval(self) -> float:
        return INTERVAL_BUSY if self.is_busy else INTERVAL_IDLE

    def on_rtt(self, rtt: float | None, now: float) -> bool:
        """Takes a probe's time in seconds (None if it got no answer); returns whether the rates have changed."""
        if not self.is_busy:
            self._update_idle_rtt(rtt)
            return False
        if rtt is not None:
            self.idle_rtt = rtt if self.idle_rtt is None else min(self.idle_rtt, rtt)
            self._rtts.append((now, rtt))
        while self._rtts and self._rtts[0][0] < now - REBASELINE_AFTER:
            self._rtts.popleft()
        self._late.append(rtt is None or self.idle_rtt is None or rtt > self.idle_rtt + SLACK)
        if sum(self._late) >= LATE:
            return self._decrease(now)
        return not any(self._late) and self._increase(now)

    def reset(self) -> bool:
        """The target answers on no link: restores the configured rates. Returns whether they have changed."""
        before, self.rates = self.rates, dict(self.max_rates)
        self._late.clear()
        self._rtts.clear()
        return self.rates != before

    def _update_idle_rtt(self, rtt: float | None) -> None:
        """On an idle link: a shorter time counts at once, a longer one gradually."""
        self._late.clear()
        self._rtts.clear()
        if rtt is not None:
            known = self.idle_rtt
            self.idle_rtt = rtt if known is None else min(rtt, known + 0.1 * (rtt - known))

    def _decrease(self, now: float) -> bool:
        if now < self._decreased + AFTER_DECREASE:
            return False
        shares = {direction: self.throughput(direction) / most for direction, most in self.max_rates.items()}
        before = dict(self.rates)
        for direction, share in shares.items():
            if share >= IDLE_BELOW and share >= max(shares.values()) / 2:
                rate = self.rates[direction]
                aim = max(MAX_STEP_DOWN * rate, min(DECREASE * rate, HEADROOM * self.throughput(direction)))
                self.rates[direction] = int(max(MIN_SHARE * self.max_rates[direction], aim))
        if self.rates == before:
            if self._rtts and now >= self._decreased + REBASELINE_AFTER:
                self.idle_rtt = min(rtt for _, rtt in self._rtts)
                self._late.clear()
            return False
        self._decreased = now
        return True

    def _increase(self, now: float) -> bool:
        if len(self._late) < WINDOW or now < max(self._increased + AFTER_INCREASE, self._decreased + AFTER_DECREASE):
            return False
        before = dict(self.rates)
        for direction, rate in before.items():
            if self.throughput(direction) >= HIGH_LOAD * rate:
                self.rates[direction] = min(self.max_rates[direction], int(INCREASE * rate))
        if self.rates == before:
            return False
        self._increased = now
        return True
