"""Which links lead out and must not be used now, since their settings say so. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from router.links import Link
from router.usage import Allowance, Usage
from tributary.settings.hours import Hours, clock, minute_of


@dataclass(frozen=True)
class Now:
    """Local time, and whether it is the right one: a computer without a clock of its own learns it from the network."""

    local: datetime
    is_right: bool = True


def allowed(links: Sequence[Link], dead: Collection[str], usage: Usage, now: Now) -> tuple[Link, ...]:
    """``links``; those that must not be used have no way out, and say why.

    While the time is not known a link with hours is used only if no other one works: without a link nobody learns it.
    """
    others = any(
        link.ways and link.name not in dead and not link.wan.hours and _used_up(link, usage) is None for link in links
    )
    return tuple(_checked(link, _used_up(link, usage) or _outside_of_hours(link, now, others)) for link in links)


def _checked(link: Link, why: str | None) -> Link:
    if why is None or not link.ways:
        return link
    return replace(link, ways=(), down=why, kept_from=tuple(way.version for way in link.ways))


def _used_up(link: Link, usage: Usage) -> str | None:
    if usage.level(link.name) is not Allowance.USED_UP:
        return None
    renews = usage.renews(link.name)
    when = f"on {renews}" if renews else "once the time is known"
    return f"monthly cap of {link.wan.monthly_cap} used up, counts anew {when}"


def _outside_of_hours(link: Link, now: Now, others: bool) -> str | None:
    hours = link.wan.hours
    if not hours:
        return None
    if not now.is_right:
        return "it has hours, and the time is not known yet" if others else None
    if any(span.days_ago(now.local) is not None for span in hours):
        return None
    return f"outside of its hours, used again at {_next(hours, now.local)}"


def _next(hours: Sequence[Hours], now: datetime) -> str:
    return clock(min((span.start for span in hours), key=lambda start: (start - minute_of(now)) % (24 * 60)))
