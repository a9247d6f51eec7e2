"""Which links must not be used now, by their settings, whether they lead out or not. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from router.links.model import Link
from router.links.usage import CapLevel, Usage
from tributary.settings.hours import Hours, clock, minute_of


@dataclass(frozen=True)
class Now:
    """Local time, and whether it is synchronized: without a battery-backed clock that takes the network."""

    local: datetime
    is_synchronized: bool = True


def allowed(links: Sequence[Link], down: Collection[str], usage: Usage, now: Now) -> tuple[Link, ...]:
    """``links``; those that must not be used have no next hops, and say why.

    While the clock is not synchronized, a link with hours, or whose month is over, is used only if no other one works:
    without a link it never is. The one whose month may be over carries little, since no time server may ever answer.
    """
    in_cap = [link for link in links if usage.level(link.name) is not CapLevel.EXCEEDED]
    working = [link for link in in_cap if link.next_hops and link.name not in down]
    others = any(not link.wan.hours for link in working)
    return tuple(
        _checked(link, _used_up(link, usage, now, bool(working)) or _outside_of_hours(link, now, others))
        for link in links
    )


def _checked(link: Link, why: str | None) -> Link:
    if why is None:
        return link
    return replace(
        link, next_hops=(), down=why, blocked_versions=tuple(next_hop.version for next_hop in link.next_hops)
    )


def _used_up(link: Link, usage: Usage, now: Now, others: bool) -> str | None:
    if usage.level(link.name) is not CapLevel.EXCEEDED:
        return None
    renews = usage.resets_on(link.name)
    may_be_over = not now.is_synchronized and (renews is None or now.local.date() >= renews)
    if may_be_over and not others and usage.may_learn_time(link.name):
        return None
    when = f"on {renews}" if renews else "once the time is known"
    return f"monthly cap of {link.wan.monthly_cap} used up, resets {when}"


def _outside_of_hours(link: Link, now: Now, others: bool) -> str | None:
    hours = link.wan.hours
    if not hours:
        return None
    if not now.is_synchronized:
        return "it has hours, and the time is not known yet" if others else None
    if any(span.days_ago(now.local) is not None for span in hours):
        return None
    return f"outside of its hours, used again at {_next(hours, now.local)}"


def _next(hours: Sequence[Hours], now: datetime) -> str:
    return clock(min((span.start for span in hours), key=lambda start: (start - minute_of(now)) % (24 * 60)))
