"""How many connections this network namespace tracks, and for how long silent ones of TCP."""

from collections.abc import Callable, Mapping

from tributary.kernel import sysctl
from tributary.settings.errors import CommandError

_MOST = "net/netfilter/nf_conntrack_max"
_CLOSED = "net/netfilter/nf_conntrack_tcp_timeout_time_wait"
_TIMEOUTS = {"net/netfilter/nf_conntrack_tcp_timeout_established": (432_000, 7_440), _CLOSED: (120, 10)}
"""Seconds by default, and here. Of silent connections: five days, in which many that are long dead would count, and the
least of RFC 5382 (REQ-5). Of those that have ended, which no limit of the rules counts (nf_conncount.c,
already_closed): as long as the kernel keeps those that were reset.
"""
_ROUTERS = 64
"""So many that have all of their connections leave none for others."""


def changes(connections: int, begun: Callable[[int], int]) -> Mapping[str, tuple[int, int]]:
    """The settings to change, each with its value and the one it needs if a router may have so many ``connections``,
    and may have ``begun`` so many within some seconds.

    A time-out that is not the kernel's default is somebody's choice, as is no maximum (0).
    """
    found = {name: times for name, times in _TIMEOUTS.items() if sysctl.number(name) == times[0]}
    closed = found[_CLOSED][1] if _CLOSED in found else sysctl.number(_CLOSED) or 0
    most, needed = sysctl.number(_MOST), _ROUTERS * (connections + begun(closed))
    return {_MOST: (most, needed), **found} if most and most < needed else found


def put_back(before: Mapping[str, int], given: Mapping[str, int]) -> None:
    """Set them as they were ``before``, but for those that somebody has changed since they were ``given`` a value."""
    found = {name: sysctl.number(name) for name in before}
    put({name: value for name, value in before.items() if found[name] == given.get(name, found[name])})


def put(values: Mapping[str, int]) -> list[str]:
    """Set them; returns what the kernel refused, as it does in a container, for whose host it is to decide."""
    notes = []
    for name, value in values.items():
        try:
            sysctl.write(name, value)
        except CommandError as failure:
            notes.append(f"{failure}: wanted is {value}")
    return notes
