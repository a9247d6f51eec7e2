"""What owners have used of their quotas: byte counters in, owners whose quota is spent out.

A meter reads the counter of a class again before the class, at its fastest, can have passed half of what is left; so
the readings come closer and closer, and few are needed. The last half percent counts as spent.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from throttler.policy.decide import Owner
from throttler.policy.model import Rule
from throttler.policy.values import HIGHEST, Period, Quota, Scope

SECOND = 10**9
LONGEST = 5 * SECOND
"""Nanoseconds between two readings at most, and between two savings: a crash forgets twice as much at most."""
_ACCURACY = 200
"""One part in so many of a quota counts as nothing left."""
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
    """What one owner has used since ``since``, an ISO 8601 date and time."""

    quota: Quota
    since: str
    used: int = 0

    @property
    def left(self) -> int:
        """Bytes, 0 when the quota is spent."""
        left = self.quota.size.amount - self.used
        return left if left * _ACCURACY > self.quota.size.amount else 0


@dataclass
class _Counter:
    """The counter of one class of an owner: what it was when it was read last, and when it is to be read again.

    ``read`` is None if it was not read since it was metered: what it has counted before is nobody's.
    """

    owner: Owner
    speed: int
    read: int | None
    due: int = 0


class Quotas:
    """All meters. Counters are named by the minor numbers of their classes."""

    def __init__(self) -> None:
        self._meters: dict[Owner, _Meter] = {}
        self._counters: dict[int, _Counter] = {}
        self._due: list[tuple[int, int]] = []

    @property
    def spent(self) -> frozenset[Owner]:
        """The owners that have nothing left."""
        return frozenset(owner for owner, meter in self._meters.items() if not meter.left)

    @property
    def next_reading(self) -> int | None:
        """When a counter is to be read, in nanoseconds of the clock that the readings had."""
        return self._due[0][0] if self._due else None

    def due(self, now: int) -> list[int]:
        """The counters to be read now; each must be told to ``read``."""
        minors = []
        while self._due and self._due[0][0] <= now:
            time, minor = heapq.heappop(self._due)
            counter = self._counters.get(minor)
            if counter is not None and counter.due == time:
                minors.append(minor)
        return minors

    def open(self, minor: int, owner: Owner, rule: Rule, now: int, local: datetime, is_new: bool = True) -> None:
        """A class of ``owner`` is there; the counter of a new one stands at zero."""
        if rule.quota is None:
            return
        meter = self._meters.setdefault(owner, _Meter(rule.quota, _start(rule.quota, local)))
        meter.quota = rule.quota
        known = self._counters.get(minor)
        speed = (rule.ceiling if rule.borrow else rule.rate) or None
        read = known.read if known else 0 if is_new else None
        counter = _Counter(owner, speed.amount if speed else min(_ASSUMED, HIGHEST.amount), read)
        self._counters[minor] = counter
        self._plan(minor, counter, now)

    def read(self, minor: int, total: int, now: int, local: datetime) -> bool:
        """The counter ``minor`` shows ``total`` bytes; returns whether its owner's quota has just been spent."""
        counter = self._counters.get(minor)
        if counter is None:
            return False
        meter = self._meters[counter.owner]
        had_some = bool(meter.left)
        self._begin_anew(meter, local)
        meter.used += max(0, total - (total if counter.read is None else counter.read))
        counter.read = total
        self._plan(minor, counter, now)
        return had_some and not meter.left

    def close(self, minor: int) -> None:
        """The class is gone; it was read for the last time."""
        self._counters.pop(minor, None)

    def forget_counters(self) -> None:
        """All classes are gone."""
        self._counters.clear()
        self._due.clear()

    def renew(self, local: datetime) -> bool:
        """Begin anew what a new period begins for; returns whether somebody who had spent all has something again."""
        before = self.spent
        for meter in self._meters.values():
            self._begin_anew(meter, local)
        # Who has used nothing and has no class need not be remembered.
        present = {counter.owner for counter in self._counters.values()}
        self._meters = {owner: meter for owner, meter in self._meters.items() if meter.used or owner in present}
        return self.spent != before

    def keep(self, rules: Iterable[Rule]) -> None:
        """Forget meters of rules that are no more, and take over changed quotas."""
        quotas = {rule.name: rule.quota for rule in rules if rule.quota is not None}
        self._meters = {owner: meter for owner, meter in self._meters.items() if owner.rule in quotas}
        for owner, meter in self._meters.items():
            meter.quota = quotas[owner.rule]
        self._counters = {minor: one for minor, one in self._counters.items() if one.owner in self._meters}

    def used(self) -> list[tuple[Owner, int]]:
        """What each owner has used, in bytes."""
        return [(owner, meter.used) for owner, meter in self._meters.items()]

    def dump(self) -> list[dict[str, Any]]:
        """All meters as JSON types, for ``load``."""
        return [
            {"rule": owner.rule, "scope": owner.scope, "owner": owner.key, "since": meter.since, "used": meter.used}
            for owner, meter in self._meters.items()
        ]

    def load(self, entries: Iterable[Mapping[str, Any]], rules: Iterable[Rule], local: datetime) -> None:
        """Take over what ``dump`` gave, as far as the rules and their periods are still the same.

        Raises KeyError, TypeError or ValueError for anything else.
        """
        quotas = {rule.name: rule.quota for rule in rules if rule.quota is not None}
        for entry in entries:
            quota = quotas.get(entry["rule"])
            if quota is not None and entry["since"] == _start(quota, local):
                owner = Owner(entry["rule"], Scope(entry["scope"]), entry["owner"])
                self._meters[owner] = _Meter(quota, entry["since"], int(entry["used"]))

    def _begin_anew(self, meter: _Meter, local: datetime) -> None:
        since = _start(meter.quota, local)
        if since != meter.since:
            meter.since, meter.used = since, 0

    def _plan(self, minor: int, counter: _Counter, now: int) -> None:
        meter = self._meters[counter.owner]
        shortest = 8 * SECOND * meter.quota.size.amount // _ACCURACY // counter.speed // 2
        half = 8 * SECOND * meter.left // counter.speed // 2
        wait = min(max(half, shortest), LONGEST) if meter.left else LONGEST
        counter.due = now + (wait if counter.read is not None else 0)
        heapq.heappush(self._due, (counter.due, minor))


def _start(quota: Quota, local: datetime) -> str:
    return period_start(quota.period, local).replace(tzinfo=None).isoformat()
