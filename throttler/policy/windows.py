"""When rules are in force: hours and days of local time, to the minute."""

from collections.abc import Iterable
from datetime import datetime

from throttler.policy.model import Rule
from throttler.policy.values import Day


def in_force(rules: Iterable[Rule], now: datetime) -> frozenset[str]:
    """The names of the rules whose hours and days hold at ``now``, which is local time."""
    return frozenset(rule.name for rule in rules if _holds(rule, now))


def _holds(rule: Rule, now: datetime) -> bool:
    minute, today = 60 * now.hour + now.minute, now.weekday()
    if rule.hours is None:
        return _on(rule, today)
    start, end = rule.hours.start, rule.hours.end
    if start < end:
        return start <= minute < end and _on(rule, today)
    # Past midnight: what began yesterday goes on until its end.
    return (minute >= start and _on(rule, today)) or (minute < end and _on(rule, today - 1))


def _on(rule: Rule, weekday: int) -> bool:
    return not rule.days or list(Day)[weekday % 7] in rule.days
