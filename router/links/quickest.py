"""Which of equal links begins sessions through the tunnels: the one that would bring a short download first. Pure.

The first bytes of a session are on their way before any other subflow is there. A session that begins on a slow link
is as slow as that link until it is over, if it is short (docs/steering.md).
"""

from collections.abc import Mapping, Sequence

from router.links.model import Link
from tributary.settings.units import PositiveRate

KEPT = 6
"""So many round-trip times of a link are kept: the shortest of them has waited in no queue."""
_ENOUGH = 3
_ROUND_TRIPS, _BITS = 5, 8 * 250_000
"""What a short download takes: 250 kB are some five round trips of slow start, and have to pass the link."""
_SHARE, _LEAST = 0.7, 0.025
"""A link takes over if a short download takes at most this share of the other's time, and so many seconds less."""


def short_download(round_trip: float, rate: PositiveRate | None) -> float:
    """Seconds that one takes over a link of this ``round_trip`` in seconds and ``rate``, if that is known."""
    return _ROUND_TRIPS * round_trip + (_BITS / rate.amount if rate else 0)


def quickest(working: Sequence[Link], recent: Mapping[str, Sequence[float]], before: str | None) -> str | None:
    """The name of the link that begins sessions; None if no link works.

    ``working`` come by rank, and it is the first of them unless another one of its use and priority is much quicker.
    ``recent`` has round-trip times in seconds; rates count if the settings have those of all. What was chosen
    ``before`` stays as long as it is quicker at all, also while nothing is known of the first one.
    """
    if not working:
        return None
    equals = [link for link in working if _standing(link) == _standing(working[0])]
    has_rates = all(link.wan.download for link in equals)
    takes = {
        link.name: short_download(min(recent[link.name]), link.wan.download if has_rates else None)
        for link in equals
        if len(recent.get(link.name, ())) >= _ENOUGH
    }
    first = equals[0].name
    if first not in takes:
        return before if before in takes else first
    chosen = before if before in takes and takes[before] < takes[first] else first
    best = min(takes, key=lambda name: takes[name])
    return best if takes[best] <= min(takes[chosen] * _SHARE, takes[chosen] - _LEAST) else chosen


def _standing(link: Link) -> tuple[object, ...]:
    return link.wan.policy_rank, link.wan.priority
