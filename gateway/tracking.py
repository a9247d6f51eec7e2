"""How many connections this network namespace tracks, and for how long silent ones of TCP."""

from collections.abc import Mapping

from tributary.kernel import sysctl
from tributary.settings.errors import CommandError

_MOST = "net/netfilter/nf_conntrack_max"
_SILENT = "net/netfilter/nf_conntrack_tcp_timeout_established"
_KERNEL_DEFAULT, _LONG_ENOUGH = 432_000, 7_440
"""Seconds: five days, in which many that are long dead would count, and the least of RFC 5382 (REQ-5)."""
_ROUTERS = 64
"""So many that have all of their connections leave none for others."""


def changes(connections: int) -> Mapping[str, tuple[int, int]]:
    """The settings to change, each with its value and the one it needs if a router may have so many ``connections``.

    A time-out that is not the kernel's default is somebody's choice.
    """
    found = {}
    most, silent = sysctl.number(_MOST), sysctl.number(_SILENT)
    if most is not None and most < _ROUTERS * connections:
        found[_MOST] = (most, _ROUTERS * connections)
    if silent == _KERNEL_DEFAULT:
        found[_SILENT] = (silent, _LONG_ENOUGH)
    return found


def put(values: Mapping[str, int]) -> list[str]:
    """Set them; returns what the kernel refused, as it does in a container, for whose host it is to decide."""
    notes = []
    for name, value in values.items():
        try:
            sysctl.write(name, value)
        except CommandError as failure:
            notes.append(f"{failure}: wanted is {value}")
    return notes
