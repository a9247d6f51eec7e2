"""Accounts quotas: byte counters in, owners whose quota is exhausted out.

A class's counter is read again before the class, at its full rate, can have sent half of the rest; so readings come
closer and closer, and few are needed. The last half percent counts as exhausted.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from throttler.policy.decide import Owner
from throttler.policy.model import Rule
from throttler.policy.values import HIGHEST, Period, Quota, SharedBy

SECOND = 10**9
LONGEST = 5 * SECOND
"""Nanoseconds between two readings at most."""
AT_ONCE = 100
"""Counters read in one turn: each costs a system call, while events wait."""
METERS = 65_536
"""Owners that are remembered; a client can use a new IPv6 address at will."""
_ACCURACY = 200
"""A rest below one part in so many of a quota counts as exhausted."""
_ASSUMED = 10**10
"""Bits per second of a class that has no limit."""


def period_start(period: Period, now: datetime) -> datetime:
    """The beginning of the calendar's hour, day, week (Monday) or month that ``now``, local time, is in."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    match period:
        case Period.HOUR:
            return hour
        case Period.DAY:
            return day
        case Period.WEEK:
            return day - timedelta(days=day.weekday())
        case Period.MONTH:
            return day.replace(day=1)


@dataclass
class _Meter:
    """An owner's usage since ``since``, an ISO 8601 date and time."""

    quota: Quota
    since: str
    used: int = 0

    @property
    def left(self) -> int:
        """Bytes, 0 when the quota is exhausted."""
        left = self.quota.size.amount - self.used
        return left if left * _ACCURACY > self.quota.size.amount else 0


@dataclass
class _Counter:
    """The counter of one class of an owner: its last reading, and when it is read next.

    ``read`` is None before the first reading: what it counted before that is ignored.
    """

    owner: Owner
    speed: int
    read: int | None
    due: int = 0


Use = tuple[Owner, str, int]
"""An owner, the start of its period in ISO 8601, and the bytes used in it."""


@dataclass(frozen=True)
class SavedUse:
    """The usage of one owner as it is saved; ``since`` is in ISO 8601."""

    rule: str
    shared_by: SharedBy
    owner: str
    since: str
    used: int


def saved(uses: Iterable[Use]) -> list[SavedUse]:
    """The usage for ``Quotas.load``."""
    return [SavedUse(owner.rule, owner.shared_by, owner.key, since, used) for owner, since, used in uses if used]


class Quotas:
    """All owners' usage. Counters are named by the minor numbers of their classes."""

    def __init__(self) -> None:
        self._meters: dict[Owner, _Meter] = {}
        self._aside: dict[Owner, _Meter] = {}
        """Of rules that were removed: a reload, or the end of a trial, may bring them back."""
        self.exhausted: set[Owner] = set()
        """The owners with an exhausted quota: always the same set."""
        self._counters: dict[int, _Counter] = {}
        self._due: list[tuple[int, int]] = []
        self._starts: dict[Period, str] = {}
        """Of the periods at the last renewal."""

    @property
    def next_reading(self) -> int | None:
        """When the next counter is due, in nanoseconds of the readings' clock."""
        return self._due[0][0] if self._due else None

    def due(self, now: int) -> list[int]:
        """The counters that are due, at most AT_ONCE; pass each reading to ``read``."""
        minors: list[int] = []
        while self._due and self._due[0][0] <= now and len(minors) < AT_ONCE:
            time, minor = heapq.heappop(self._due)
            counter = self._counters.get(minor)
            if counter is not None and counter.due == time:
                minors.append(minor)
        return minors

    def open(self, minor: int, owner: Owner, rule: Rule, now: int, local: datetime, is_new: bool = True) -> None:
        """Meter a class of ``owner``; the counter of a new one is zero."""
        if rule.quota is None:
            return
        meter = self._meters.get(owner)
        if meter is None:
            self._make_room()
            meter = self._meters[owner] = _Meter(rule.quota, _start(rule.quota.period, local))
        meter.quota = rule.quota
        self._judge(owner, meter)
        known = self._counters.get(minor)
        speed = (rule.ceiling if rule.borrow else rule.rate) or None
        read = known.read if known else 0 if is_new else None
        counter = _Counter(owner, speed.amount if speed else min(_ASSUMED, HIGHEST.amount), read)
        self._counters[minor] = counter
        self._plan(minor, counter, now)

    def read(self, minor: int, total: int, now: int, local: datetime) -> Owner | None:
        """Account ``total`` bytes of the counter ``minor``; returns its owner if that has just exhausted the quota."""
        counter = self._counters.get(minor)
        if counter is None:
            return None
        meter = self._meters[counter.owner]
        had_some = bool(meter.left)
        start = _start(meter.quota.period, local)
        if not _continues(meter.quota.period, meter.since, start):
            meter.since, meter.used = start, 0
        meter.used += max(0, total - (total if counter.read is None else counter.read))
        counter.read = total
        self._plan(minor, counter, now)
        self._judge(counter.owner, meter)
        return counter.owner if had_some and not meter.left else None

    def close(self, minor: int) -> None:
        """Forget a removed class, after its last reading."""
        self._counters.pop(minor, None)

    def forget_counters(self) -> None:
        self._counters.clear()
        self._due.clear()

    def renew(self, local: datetime) -> list[Owner]:
        """Start new periods; returns the owners that have bytes left again.

        By a clock that was behind a later period goes on: until the next one by this clock, lest it never ends where
        the clock was ahead before.
        """
        before, self._starts = self._starts, {period: _start(period, local) for period in Period}
        self._aside = {owner: meter for owner, meter in self._aside.items() if not self._has_ended(meter, before)}
        ended = [(owner, meter) for owner, meter in self._meters.items() if self._has_ended(meter, before)]
        if not ended:
            return []
        had_none = self.exhausted.copy()
        # Owners without usage and without a class are forgotten.
        present = {counter.owner for counter in self._counters.values()}
        for owner, meter in ended:
            meter.since, meter.used = self._starts[meter.quota.period], 0
            self._judge(owner, meter)
            if owner not in present:
                del self._meters[owner]
        return list(had_none - self.exhausted)

    def _has_ended(self, meter: _Meter, before: Mapping[Period, str]) -> bool:
        period = meter.quota.period
        start = self._starts[period]
        is_next = before.get(period, start) < start
        return meter.since != start and (is_next or not _continues(period, meter.since, start))

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Put owners of removed rules aside until their period ends, and adopt changed quotas."""
        quotas = {rule.name: rule.quota for rule in rules if rule.quota is not None}
        known = self._aside | self._meters
        self._meters = self._most_used((owner, meter) for owner, meter in known.items() if owner.rule in quotas)
        self._aside = self._most_used((owner, meter) for owner, meter in known.items() if owner.rule not in quotas)
        self.exhausted.intersection_update(self._meters)
        for owner, meter in self._meters.items():
            meter.quota = quotas[owner.rule]
            self._judge(owner, meter)
        self._counters = {minor: one for minor, one in self._counters.items() if one.owner in self._meters}

    def used(self) -> list[Use]:
        return [(owner, meter.since, meter.used) for owner, meter in self._meters.items()]

    def load(self, entries: Iterable[SavedUse], rules: Iterable[Rule], local: datetime) -> None:
        """Load what ``saved`` gave, for rules and periods that are still the same, or later ones by a clock put back.

        Raises ValueError for a time that is none.
        """
        quotas = {rule.name: rule.quota for rule in rules if rule.quota is not None}
        found: dict[Owner, _Meter] = {}
        for entry in entries:
            quota = quotas.get(entry.rule)
            if quota is not None and _continues(quota.period, entry.since, _start(quota.period, local)):
                owner = Owner(entry.rule, entry.shared_by, entry.owner)
                found[owner] = _Meter(quota, entry.since, entry.used)
        self._meters |= found
        for owner, meter in found.items():
            self._judge(owner, meter)

    def _judge(self, owner: Owner, meter: _Meter) -> None:
        (self.exhausted.discard if meter.left else self.exhausted.add)(owner)

    def _make_room(self) -> None:
        """When there are too many owners, forget a part of them: those without a class that have used least.

        Owners with an exhausted quota are forgotten last: a change of address gives no new quota.
        """
        if len(self._meters) < METERS:
            return
        present = {counter.owner for counter in self._counters.values()}
        others = ((meter.used, number, owner) for number, (owner, meter) in enumerate(self._meters.items()))
        away = (each for each in others if each[2] not in present)
        for _, _, owner in heapq.nsmallest(METERS // 16, away):
            del self._meters[owner]
            self.exhausted.discard(owner)

    def _most_used(self, meters: Iterable[tuple[Owner, _Meter]]) -> dict[Owner, _Meter]:
        """Those of METERS owners at most: of what has a class, and else of what has used most."""
        found = dict(meters)
        if len(found) <= METERS:
            return found
        present = {counter.owner for counter in self._counters.values()}
        return dict(heapq.nlargest(METERS, found.items(), key=lambda each: (each[0] in present, each[1].used)))

    def _plan(self, minor: int, counter: _Counter, now: int) -> None:
        meter = self._meters[counter.owner]
        shortest = 8 * SECOND * meter.quota.size.amount // _ACCURACY // counter.speed // 2
        half = 8 * SECOND * meter.left // counter.speed // 2
        wait = min(max(half, shortest), LONGEST) if meter.left else LONGEST
        counter.due = now + (wait if counter.read is not None else 0)
        heapq.heappush(self._due, (counter.due, minor))


def _start(period: Period, local: datetime) -> str:
    return period_start(period, local).replace(tzinfo=None).isoformat()


def _continues(period: Period, since: str, start: str) -> bool:
    """Whether the period since then is the one that began at ``start``, or a later one: the clock was put back."""
    return since == start or (since > start and since == _start(period, datetime.fromisoformat(since)))
