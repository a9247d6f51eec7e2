"""When rules are active: hours and days of local time, to the minute."""

from collections.abc import Iterable
from datetime import datetime

from throttler.policy.model import Rule
from throttler.policy.values import Day


def active_rules(rules: Iterable[Rule], now: datetime) -> frozenset[str]:
    """The names of the rules whose hours and days include ``now``, which is local time."""
    return frozenset(rule.name for rule in rules if _holds(rule, now))


def _holds(rule: Rule, now: datetime) -> bool:
    # Past midnight: what began yesterday goes on until its end.
    ago = rule.hours.days_ago(now) if rule.hours else 0
    return ago is not None and _on(rule, now.weekday() - ago)


def _on(rule: Rule, weekday: int) -> bool:
    return not rule.days or list(Day)[weekday % 7] in rule.days
