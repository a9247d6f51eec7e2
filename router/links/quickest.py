"""Which of equal links begins sessions through the tunnels: that of the shortest round-trip time. Pure.

The first bytes of a session are on their way before any other subflow is there. A session that begins on a slow link
is as slow as that link until it is over, if it is short (docs/steering.md).
"""

from collections.abc import Mapping, Sequence

from router.links.model import Link

KEPT = 6
"""So many round-trip times of a link are kept: the shortest of them has waited in no queue."""
_ENOUGH = 3
_SHARE, _LEAST = 0.7, 0.005
"""A link takes over if its round-trip time is at most this share of the other's, and shorter by so many seconds."""


def quickest(working: Sequence[Link], recent: Mapping[str, Sequence[float]], before: str | None) -> str | None:
    """The name of the link that begins sessions; None if no link works.

    ``working`` come by rank, and it is the first of them unless another one of its use and priority is much quicker.
    ``recent`` has round-trip times in seconds. What was chosen ``before`` stays as long as it is quicker at all, also
    while nothing is known of the first one.
    """
    if not working:
        return None
    equals = [link.name for link in working if _standing(link) == _standing(working[0])]
    shortest = {name: min(recent[name]) for name in equals if len(recent.get(name, ())) >= _ENOUGH}
    first = equals[0]
    if first not in shortest:
        return before if before in shortest else first
    chosen = before if before in shortest and shortest[before] < shortest[first] else first
    best = min(shortest, key=lambda name: shortest[name])
    much_quicker = shortest[best] <= min(shortest[chosen] * _SHARE, shortest[chosen] - _LEAST)
    return best if much_quicker else chosen


def _standing(link: Link) -> tuple[object, ...]:
    return link.wan.policy_rank, link.wan.priority
