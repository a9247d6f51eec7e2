"""Which links lead out and must not be used now, since their settings say so. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from cpe.links import Link
from cpe.usage import Allowance, Usage


def allowed(links: Sequence[Link], usage: Usage) -> tuple[Link, ...]:
    """``links``; those that must not be used have no way out, and say why."""
    return tuple(_checked(link, _used_up(link, usage)) for link in links)


def _checked(link: Link, why: str | None) -> Link:
    if why is None or not link.ways:
        return link
    return replace(link, ways=(), down=why, kept_from=tuple(way.version for way in link.ways))


def _used_up(link: Link, usage: Usage) -> str | None:
    if usage.level(link.name) is not Allowance.USED_UP:
        return None
    return f"monthly cap of {link.wan.monthly_cap} used up, counts anew on {usage.renews(link.name)}"
