"""Recorded traces: how much a link could carry, moment by moment, in Mahimahi's format.

A trace is a text file with a whole number of milliseconds a line, never smaller than the line before: the time at which
the link can deliver 1,500 bytes of IP packets. After its last time the trace begins again. See mm-link(1) of Mahimahi;
experiments/link-emulator/src/trace.rs has the details, and replays it.
"""

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.units import PositiveRate
from tributary.settings.values import Text

PROFILES = Path(__file__).parents[1] / "profiles"
"""Where a relative path begins, unless a profile in another folder or a command line says otherwise."""

_OPPORTUNITY_BITS = 8 * 1500
_MOST_DIGITS = 10  # 115 days


@dataclass(frozen=True)
class Trace(Text):
    """A link's opportunities to deliver 1,500 bytes, in milliseconds from the beginning of the trace."""

    path: Path
    times: tuple[int, ...] = field(repr=False)

    ACCEPTED = "the path, without a comma, of a file of delivery times (mm-link(1)), in quotes"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read ``path``; raises CommandError: exit 66 if that fails, exit 64 with the line if it is no trace."""
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error
        return cls(path, _times(path, lines))

    @property
    def period(self) -> float:
        """Seconds after which the trace begins again."""
        return self.times[-1] / 1000

    @property
    def mean(self) -> PositiveRate:
        """What the link carries over a whole period, in IP bits per second; at least 1 bit/s."""
        return PositiveRate(max(1, 1000 * _OPPORTUNITY_BITS * len(self.times) // self.times[-1]))

    def peak(self, seconds: float) -> float:
        """The most that the link carries in so short a time, in IP bits per second on an average of that time."""
        window = round(1000 * seconds)
        starts = range(0, self.times[-1] + window + 1, self.times[-1])
        repeated = [start + time for start in starts for time in self.times]
        most = max(bisect_left(repeated, time + window) - first for first, time in enumerate(self.times))
        return most * _OPPORTUNITY_BITS / seconds

    def turn(self, seconds: float) -> float:
        """Seconds from one opportunity to the next where in so short a time the link carries most, on an average."""
        return _OPPORTUNITY_BITS / self.peak(seconds)

    @property
    def digest(self) -> str:
        """Of its times: a file of the same path may have others later."""
        return hashlib.sha256(" ".join(map(str, self.times)).encode()).hexdigest()[:12]

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the file that ``value`` names; raises ValueError with what is accepted."""
        # A comma ends the path in what the link emulator is told.
        if not isinstance(value, str) or not value or "," in str(PROFILES / value):
            raise ValueError(cls.ACCEPTED)
        return cls.read(PROFILES / value)


def _times(path: Path, lines: list[str]) -> tuple[int, ...]:
    times: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.isdecimal() or len(line) > _MOST_DIGITS:
            raise invalid_value(str(path), f"line {number}", line, "a whole number of milliseconds")
        if times and int(line) < times[-1]:
            raise invalid_value(str(path), f"line {number}", line, "a time no earlier than the one before")
        times.append(int(line))
    if not times or times[-1] == 0:
        raise CommandError(
            Exit.USAGE, f"{path}: has no length: accepted: a trace whose last line is above 0 milliseconds"
        )
    return tuple(times)
