"""How fast, and how long yet. Pure: times are passed in."""

from collections import deque
from dataclasses import dataclass

_WINDOW = 10.0  # seconds: cards write fast into their caches at first, and slow later


@dataclass(frozen=True)
class Progress:
    """How far a step is: bytes done and in all, bytes per second, and seconds left (None: too early to tell)."""

    step: str
    done: int
    total: int
    rate: float | None
    seconds_left: float | None


class Pace:
    """The rate of the last seconds."""

    def __init__(self, step: str, total: int, now: float) -> None:
        self._step = step
        self._total = total
        self._seen = deque([(now, 0)])

    def at(self, now: float, done: int) -> Progress:
        """``done`` bytes of the step are done ``now``, in seconds of any clock."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        rate = (done - before) / (now - then) if now > then and done > before else None
        left = (self._total - done) / rate if rate else None
        return Progress(self._step, done, self._total, rate, left)
