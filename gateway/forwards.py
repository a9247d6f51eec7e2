"""Which ports of the gateway's public addresses are forwarded to which router, and conflicts. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tributary.settings.ports import Ports


def conflicts(given: Mapping[str, Sequence[Ports]], closed: Sequence[Ports]) -> Iterator[str]:
    """What is wrong with the ports that routers are ``given``, by their names: each a sentence.

    No port is forwarded to two routers, none is given twice, and no ``closed`` one is given at all.
    """
    every = sorted(((ports, name) for name, several in given.items() for ports in several), key=_order)
    for ports, name in every:
        for other in closed:
            if ports.overlaps(other):
                yield f"{ports} cannot be forwarded to {name}: the gateway itself needs {other}"
    for (one, owner), (other, name) in pairwise(every):
        if one.overlaps(other):
            yield f"{other} cannot be forwarded to {name}: {one} is, to {owner}"


def _order(each: tuple[Ports, str]) -> tuple[str, int, int, str]:
    ports, name = each
    return ports.protocol, ports.first, ports.last, name


def with_added(present: Sequence[Ports], added: Sequence[Ports]) -> list[Ports]:
    """All of ``present`` and ``added``, sorted; what is among both stays as it is."""
    return sorted({*present, *added}, key=lambda ports: _order((ports, "")))


def without(present: Sequence[Ports], removed: Sequence[Ports]) -> list[Ports]:
    """``present`` but for those of ``removed``; raises ValueError if one of these is not there."""
    for ports in removed:
        if ports not in present:
            raise ValueError(f"{ports} is not forwarded: accepted: {', '.join(map(str, present)) or 'none, none is'}")
    return [ports for ports in present if ports not in removed]
