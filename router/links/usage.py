"""What links with a monthly cap have carried in the provider's current period. Pure, but for the file that keeps it.

Interfaces have counters that start at zero when they are created. A meter remembers which interface's counter it has
read last, and its value, so that nothing is lost or counted twice over a restart of the daemon. What a new interface,
or the same one after a reboot, has carried already counts too.
"""

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Self

from tributary.daemons.state_file import StateFile, Tell, document_of
from tributary.kernel import sysctl
from tributary.settings.links import LinkPolicy

NEARLY = 0.8
"""The share of a cap from which on it is nearly used up."""
UNSAVED = 0.01
"""The share of a cap that a power cut may lose at most; smaller changes are saved after the time below."""
MOST_COUNTERS = 16
"""Interfaces of one link that are remembered: a stick that is plugged in again is a new one."""
LEARNING = 0.01
"""The share of a cap that a link whose month may be over carries after a start to learn the time by."""
BETWEEN_SAVES = 3600.0
"""Seconds between two writes for small changes, to spare SD cards."""


class CapLevel(StrEnum):
    """How much of a cap is used."""

    OK = "ok"
    NEAR = "nearly used up"
    EXCEEDED = "used up"


@dataclass(frozen=True)
class Reading:
    """An interface's counter: an id that is unique over reboots, and its bytes in both directions."""

    counter: str
    total: int


@dataclass(frozen=True)
class Meter:
    """One link: bytes ``used`` since the day ``since`` (None while the date is unknown), and the last reading: the
    ``total`` of ``counter``, None before the first one.

    ``others`` are the values of other counters of this boot.
    """

    since: date | None
    used: int
    counter: str | None
    total: int
    # Files of earlier versions have none.
    others: Mapping[str, int] = field(default_factory=dict)

    def read(self, reading: Reading) -> Self:
        """The meter after a reading. What the first counter had before its first reading does not count."""
        if self.counter is None:
            return replace(self, counter=reading.counter, total=reading.total)
        known = {**self.others, self.counter: self.total}
        before = known.pop(reading.counter, 0)
        new = reading.total - before if reading.total >= before else reading.total
        here = [(counter, total) for counter, total in known.items() if _boot(counter) == _boot(reading.counter)]
        others = dict(here[-MOST_COUNTERS:])
        return replace(self, used=self.used + new, counter=reading.counter, total=reading.total, others=others)


NEW_METER = Meter(None, 0, None, 0)


class Usage:
    """The ``meters`` of links that have or had a cap, by name; ``boot`` identifies this boot. Days are local."""

    def __init__(self, kept: Mapping[str, Meter] | None = None, boot: str = "") -> None:
        self.boot = boot
        self.meters: dict[str, Meter] = dict(kept or {})
        self._used_before = {name: meter.used for name, meter in self.meters.items()}
        self._caps: dict[str, LinkPolicy] = {}
        self._today = self._latest = date.min
        self._is_synchronized = False
        self._saved = dict(self.meters)
        self._saved_at = 0.0

    def set_policies(self, policies: Mapping[str, LinkPolicy], today: date, *, is_synchronized: bool = True) -> None:
        """Meters those of these links that have a cap; begins a new period where that is due.

        Only while the clock is synchronized: a computer without a battery-backed clock has a wrong date for a while. A
        period that began later than any synchronized day, by such a date, is moved to the current one.
        """
        self._caps = {name: policy for name, policy in policies.items() if policy.monthly_cap}
        self._today, self._is_synchronized = today, is_synchronized
        self._latest = max(self._latest, today) if is_synchronized else self._latest
        for name, policy in self._caps.items():
            meter = self.meters.get(name) or NEW_METER
            self.meters[name] = _kept(meter, policy.cap_day, self._latest) if is_synchronized else meter

    def read(self, readings: Mapping[str, Reading]) -> None:
        for name in self._caps.keys() & readings.keys():
            self.meters[name] = self.meters[name].read(readings[name])

    def set(self, name: str, used: int) -> bool:
        """Sets what was used in the current period, as the provider says; returns whether the link has a cap."""
        if name not in self._caps:
            return False
        begin = latest(self._caps[name].cap_day, self._today) if self._is_synchronized else None
        self.meters[name] = replace(self.meters[name], since=begin, used=used)
        self._used_before[name] = used
        return True

    def may_learn_time(self, name: str) -> bool:
        """Whether a ``capped`` link has carried no more since the start than ``LEARNING`` allows."""
        return self.meters[name].used - self._used_before.get(name, 0) <= LEARNING * self.cap(name)

    @property
    def capped(self) -> frozenset[str]:
        return frozenset(self._caps)

    def level(self, name: str) -> CapLevel:
        if name not in self._caps:
            return CapLevel.OK
        used, cap = self.meters[name].used, self.cap(name)
        return CapLevel.EXCEEDED if used >= cap else CapLevel.NEAR if used >= NEARLY * cap else CapLevel.OK

    def cap(self, name: str) -> int:
        """Bytes in a month, of a link that is ``capped``."""
        cap = self._caps[name].monthly_cap
        assert cap is not None, "links without a cap have no meter"
        return cap.amount

    def resets_on(self, name: str) -> date | None:
        """When the next period of a ``capped`` link begins; None while the date is unknown."""
        since = self.meters[name].since
        return following(self._caps[name].cap_day, since) if since else None

    def at(self, level: CapLevel) -> frozenset[str]:
        return frozenset(name for name in self._caps if self.level(name) is level)

    def needs_save(self, now: float, *, is_last: bool = False) -> bool:
        """Whether to save ``meters`` now and then call ``saved``; at the end after any change."""
        changed = [name for name in self._caps if self.meters[name] != self._saved.get(name)]
        due = is_last or now >= self._saved_at + BETWEEN_SAVES
        return any(map(self._is_much, changed)) or (bool(changed) and due)

    def _is_much(self, name: str) -> bool:
        meter, saved = self.meters[name], self._saved.get(name)
        if saved is None or meter.since != saved.since:
            return True
        return abs(meter.used - saved.used) >= UNSAVED * self.cap(name)

    def saved(self, now: float) -> None:
        self._saved, self._saved_at = dict(self.meters), now


def _kept(meter: Meter, day: int, today: date) -> Meter:
    """The meter in the period of ``today``; periods begin on that ``day`` of the month."""
    begin = latest(day, today)
    if meter.since is None or meter.since > today:
        return replace(meter, since=begin)
    return replace(meter, since=begin, used=0) if begin > meter.since else meter


def _boot(counter: str) -> str:
    return counter.rpartition("/")[0]


def latest(day: int, today: date) -> date:
    """The first day of the current period; in a month that is too short its last day."""
    this = _in_month(today, day)
    return this if this <= today else _in_month(today.replace(day=1) - timedelta(days=1), day)


def following(day: int, since: date) -> date:
    """The first day of the period after the one that contains ``since``."""
    this = _in_month(since, day)
    return this if this > since else _in_month(since.replace(day=28) + timedelta(days=4), day)


def _in_month(month: date, day: int) -> date:
    return month.replace(day=min(day, monthrange(month.year, month.month)[1]))


_READ = document_of(dict[str, Meter])


class UsageFile(StateFile):
    """The file ``usage.json``, written once a link has a cap; its methods raise CommandError."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        return Usage(self.read(_READ, tell), sysctl.read("kernel/random/boot_id") or "")

    def save(self, usage: Usage) -> None:
        self.replace(usage.meters)
