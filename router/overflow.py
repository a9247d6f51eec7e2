"""When overflow links are used: while the links before them are full. Pure: the clock, in seconds, is the caller's.

Links are full when together they have carried most of what they can for some seconds, in one direction. What they can
is told: it is what the settings say, or, of a link that changes, what was found out last. Of others it is the most that
was seen lately, which forgets by half in ten minutes; then fullness is a guess, since a slow server looks the same. So
the next link is tried: if all of them together carry clearly more a few seconds later, they were full; if not, the link
goes back, and is not tried again for a time that doubles, unless much more is carried.

A link goes back when what is carried would have fitted without it for some time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from router.observed import Octets

FULL, FULL_FOR = 0.85, 2.0
"""The part of what links can carry at which they count as full, and for how many seconds."""
FITS, FITS_FOR = 0.7, 10.0
"""The part into which everything must fit before a link goes back, and for how many seconds."""
TRIAL, RAMP = 5.0, 2.0
"""Seconds of a trial, and those of them at its beginning that do not count: the link's subflows gather speed."""
GAIN = 1.15
"""By how much more must be carried in a trial."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds between a trial in vain and the next one; they double."""
GROWN = 1.3
"""How much more than at the last trial in vain is worth another one at once."""
HALF_LIFE = 600.0
"""Seconds in which half of the most that was seen is forgotten."""
LEAST = 1e6
"""Bits per second that links can carry of which nobody has told what they can."""


@dataclass(frozen=True)
class Rates:
    """What a link can carry in bits per second, in and out; None where nobody knows."""

    download: float | None = None
    upload: float | None = None

    @property
    def each(self) -> tuple[float | None, float | None]:
        """Both, in the order of all pairs here."""
        return self.download, self.upload


@dataclass(frozen=True)
class Candidates:
    """The links that work, as they rank: ``front`` are used always, ``waiting`` one after the other when needed."""

    front: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


_Pair = tuple[float, float]
_NONE: _Pair = (0.0, 0.0)


@dataclass
class _Trial:
    """Began with ``before`` bits per second in ``direction``; what was carried since the ramp, in bits and seconds."""

    direction: int
    before: float
    began: float
    bits: float = 0.0
    seconds: float = 0.0


class Overflow:
    """How many of the waiting links are used."""

    def __init__(self) -> None:
        self.candidates = Candidates()
        self._rates: Mapping[str, Rates] = {}
        self._used = 0
        self._counts: dict[str, Octets] = {}
        self._counted_at = 0.0
        self._peaks: dict[str, _Pair] = {}
        self._full: float | None = None
        self._fits: float | None = None
        self._trial: _Trial | None = None
        self._pause, self._next_trial, self._in_vain = FIRST_PAUSE, float("-inf"), 0.0

    @property
    def waiting(self) -> frozenset[str]:
        """The links that are not needed now."""
        return frozenset(self.candidates.waiting[self._used :])

    @property
    def counted(self) -> frozenset[str]:
        """The links whose bytes decide; none while nobody waits."""
        candidates = self.candidates
        return frozenset((*candidates.front, *candidates.waiting)) if candidates.waiting else frozenset()

    def consider(self, candidates: Candidates) -> None:
        """These links work now; those in use stay so only if the links before them are the same."""
        if candidates != self.candidates:
            self._used, self._full, self._fits, self._trial = 0, None, None, None
        self.candidates = candidates

    def count(self, counts: Mapping[str, Octets], told: Mapping[str, Rates], now: float) -> bool:
        """What links have carried up to now, and what they can; returns whether others are used from now on."""
        self._rates = told
        before, last = self.waiting, self._counted_at
        span = now - last
        known = self._counts
        self._counts, self._counted_at = {name: counts[name] for name in counts.keys() & self.counted}, now
        if not known or not span > 0:
            return False
        rates = {name: _rates(known[name], counts[name], span) for name in self._counts.keys() & known.keys()}
        self._remember(rates, span)
        self._decide(rates, now, span)
        return self.waiting != before

    def _remember(self, rates: Mapping[str, _Pair], span: float) -> None:
        kept: float = 0.5 ** (span / HALF_LIFE)
        for name, (download, upload) in rates.items():
            most = self._peaks.get(name, _NONE)
            self._peaks[name] = max(download, most[0] * kept), max(upload, most[1] * kept)

    def _decide(self, rates: Mapping[str, _Pair], now: float, span: float) -> None:
        now_used = self._in_use(self._used)
        total = [sum(rates.get(name, _NONE)[direction] for name in now_used) for direction in (0, 1)]
        if self._trial:
            self._judge(self._trial, total[self._trial.direction], now, span)
            return
        full = next((each for each in (0, 1) if self._is_full(now_used, each, total[each])), None)
        self._full = _since(self._full, full is not None, now - span)
        fits = self._used > 0 and all(
            total[each] <= FITS * self._worth(self._in_use(self._used - 1), each) for each in (0, 1)
        )
        self._fits = _since(self._fits, fits, now - span)
        if full is not None and self._full is not None and now - self._full >= FULL_FOR:
            self._use_next(now_used, full, total[full], now)
        elif self._fits is not None and now - self._fits >= FITS_FOR:
            self._use(self._used - 1)

    def _use_next(self, links: Sequence[str], direction: int, total: float, now: float) -> None:
        if self._used == len(self.candidates.waiting):
            return
        if not all(self._told(name, direction) for name in links):
            if now < self._next_trial and total < GROWN * self._in_vain:
                return
            self._trial = _Trial(direction, total, now)
        self._use(self._used + 1)

    def _judge(self, trial: _Trial, total: float, now: float, span: float) -> None:
        if now - span >= trial.began + RAMP:
            trial.bits, trial.seconds = trial.bits + total * span, trial.seconds + span
        if now < trial.began + TRIAL or not trial.seconds:
            return
        self._trial = None
        if trial.bits / trial.seconds >= GAIN * trial.before:
            self._pause, self._next_trial = FIRST_PAUSE, float("-inf")
            return
        self._in_vain, self._next_trial = trial.before, now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._use(self._used - 1)

    def _use(self, number: int) -> None:
        self._used, self._full, self._fits = number, None, None

    def _in_use(self, waiting: int) -> tuple[str, ...]:
        return (*self.candidates.front, *self.candidates.waiting[:waiting])

    def _is_full(self, links: Sequence[str], direction: int, total: float) -> bool:
        return total >= FULL * self._worth(links, direction)

    def _worth(self, links: Sequence[str], direction: int) -> float:
        """What they can carry together: as told, or what was seen."""
        told = [self._told(name, direction) for name in links]
        seen = [self._peaks.get(name, _NONE)[direction] for name in links]
        least = 0.0 if all(told) else LEAST
        return max(least, sum(one or other for one, other in zip(told, seen, strict=True)))

    def _told(self, name: str, direction: int) -> float | None:
        return self._rates.get(name, Rates()).each[direction]


def _rates(before: Octets, after: Octets, span: float) -> _Pair:
    # An interface that is another one counts anew.
    received, sent = max(0, after.received - before.received), max(0, after.sent - before.sent)
    return 8 * received / span, 8 * sent / span


def _since(known: float | None, holds: bool, begin: float) -> float | None:
    """Since when something holds; ``begin`` if it does from now on."""
    if not holds:
        return None
    return begin if known is None else known
