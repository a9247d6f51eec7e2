"""When overflow links are used: while the links before them are full. Pure: the caller passes the clock in seconds.

Links are full when together they have carried most of their capacity for some seconds, in one direction. The capacity
is that of the settings or, of a link with adaptive rates, the current rate. Of other links it is the maximum seen
lately, which decays with a half-life of ten minutes; fullness is then a guess, since a slow server looks the same. So
the next link is tried: if all together carry clearly more a few seconds later, they were full; if not, the link goes
back to standby, and is not tried again for a time that doubles, unless the load grows much.

A link goes back to standby when the load would have fitted without it for some time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tributary.kernel.state import Octets

FULL, FULL_FOR = 0.85, 2.0
"""The share of their capacity at which links count as full, and for how many seconds."""
FITS, FITS_FOR = 0.7, 10.0
"""The share into which everything must fit before a link goes back to standby, and for how many seconds."""
TRIAL, RAMP = 5.0, 2.0
"""Seconds of a trial, and of its ramp, which does not count: the link's subflows are in slow start."""
GAIN = 1.15
"""The factor by which the load must grow in a trial."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds between a failed trial and the next one; they double."""
GROWN = 1.3
"""The factor above the load of the last failed trial at which there is another one at once."""
HALF_LIFE = 600.0
"""Seconds in which a maximum decays by half."""
LEAST = 1e6
"""Bits per second: the minimal capacity of links without a configured one."""


class Rates(NamedTuple):
    """A link's capacity in bits per second; None if unknown. All pairs in this module have that order."""

    download: float | None = None
    upload: float | None = None


@dataclass(frozen=True)
class Candidates:
    """The working links by rank: ``active`` are always used, ``standby`` one after the other when needed."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()


_Pair = tuple[float, float]
_NONE: _Pair = (0.0, 0.0)


@dataclass
class _Trial:
    """It began at ``before`` bits per second in ``direction``; the load since the ramp, in bits and seconds."""

    direction: int
    before: float
    began: float
    bits: float = 0.0
    seconds: float = 0.0


class Overflow:
    """How many of the standby links are used."""

    def __init__(self) -> None:
        self.candidates = Candidates()
        self._rates: Mapping[str, Rates] = {}
        self._used = 0
        self._counts: dict[str, Octets] = {}
        self._counted_at = 0.0
        self._peaks: dict[str, _Pair] = {}
        self._full_since: float | None = None
        self._fits_since: float | None = None
        self._trial: _Trial | None = None
        self._pause, self._next_trial, self._last_failed_load = FIRST_PAUSE, float("-inf"), 0.0

    @property
    def standby(self) -> frozenset[str]:
        """The links that are not needed now."""
        return frozenset(self.candidates.standby[self._used :])

    @property
    def counted(self) -> frozenset[str]:
        """The links whose bytes decide; none without standby links."""
        candidates = self.candidates
        return frozenset((*candidates.active, *candidates.standby)) if candidates.standby else frozenset()

    def set_candidates(self, candidates: Candidates) -> None:
        """Sets the working links. Used standby links stay in use only if nothing has changed."""
        if candidates != self.candidates:
            self._used, self._full_since, self._fits_since, self._trial = 0, None, None, None
        self.candidates = candidates

    def count(self, counts: Mapping[str, Octets], configured: Mapping[str, Rates], now: float) -> bool:
        """Takes counters and capacities; returns whether other links are used from now on."""
        self._rates = configured
        before, last = self.standby, self._counted_at
        span = now - last
        known = self._counts
        self._counts, self._counted_at = {name: counts[name] for name in counts.keys() & self.counted}, now
        if not known or not span > 0:
            return False
        rates = {name: _rates(known[name], counts[name], span) for name in self._counts.keys() & known.keys()}
        self._remember(rates, span)
        self._decide(rates, now, span)
        return self.standby != before

    def _remember(self, rates: Mapping[str, _Pair], span: float) -> None:
        kept: float = 0.5 ** (span / HALF_LIFE)
        for name, (download, upload) in rates.items():
            most = self._peaks.get(name, _NONE)
            self._peaks[name] = max(download, most[0] * kept), max(upload, most[1] * kept)

    def _decide(self, rates: Mapping[str, _Pair], now: float, span: float) -> None:
        now_used = self._in_use(self._used)
        total = [sum(rates.get(name, _NONE)[direction] for name in now_used) for direction in (0, 1)]
        if self._trial:
            self._evaluate_trial(self._trial, total[self._trial.direction], now, span)
            return
        full = next((each for each in (0, 1) if total[each] >= FULL * self._capacity(now_used, each)), None)
        self._full_since = _since(self._full_since, full is not None, now - span)
        fits = self._used > 0 and all(
            total[each] <= FITS * self._capacity(self._in_use(self._used - 1), each) for each in (0, 1)
        )
        self._fits_since = _since(self._fits_since, fits, now - span)
        if full is not None and self._full_since is not None and now - self._full_since >= FULL_FOR:
            self._use_next(now_used, full, total[full], now)
        elif self._fits_since is not None and now - self._fits_since >= FITS_FOR:
            self._use(self._used - 1)

    def _use_next(self, links: Sequence[str], direction: int, total: float, now: float) -> None:
        if self._used == len(self.candidates.standby):
            return
        if not all(self._configured(name, direction) for name in links):
            if now < self._next_trial and total < GROWN * self._last_failed_load:
                return
            self._trial = _Trial(direction, total, now)
        self._use(self._used + 1)

    def _evaluate_trial(self, trial: _Trial, total: float, now: float, span: float) -> None:
        if now - span >= trial.began + RAMP:
            trial.bits, trial.seconds = trial.bits + total * span, trial.seconds + span
        if now < trial.began + TRIAL or not trial.seconds:
            return
        self._trial = None
        if trial.bits / trial.seconds >= GAIN * trial.before:
            self._pause, self._next_trial = FIRST_PAUSE, float("-inf")
            return
        self._last_failed_load, self._next_trial = trial.before, now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._use(self._used - 1)

    def _use(self, number: int) -> None:
        self._used, self._full_since, self._fits_since = number, None, None

    def _in_use(self, standby: int) -> tuple[str, ...]:
        return (*self.candidates.active, *self.candidates.standby[:standby])

    def _capacity(self, links: Sequence[str], direction: int) -> float:
        """What they can carry together, as configured or as seen."""
        configured = [self._configured(name, direction) for name in links]
        seen = [self._peaks.get(name, _NONE)[direction] for name in links]
        least = 0.0 if all(configured) else LEAST
        return max(least, sum(one or other for one, other in zip(configured, seen, strict=True)))

    def _configured(self, name: str, direction: int) -> float | None:
        return self._rates.get(name, Rates())[direction]


def _rates(before: Octets, after: Octets, span: float) -> _Pair:
    # Counters of a new interface start at zero.
    received, sent = max(0, after.received - before.received), max(0, after.sent - before.sent)
    return 8 * received / span, 8 * sent / span


def _since(known: float | None, holds: bool, begin: float) -> float | None:
    """Since when ``holds`` is true; ``begin`` if it was not before."""
    if not holds:
        return None
    return begin if known is None else known
