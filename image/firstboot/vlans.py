"""Interfaces with a VLAN's tag (IEEE 802.1Q): the files for systemd-networkd that make them. Pure.

Such an interface is made because a link has the key vlan, or because its name says so, as 'end1.832' does.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from image.firstboot.texts import sections, unneeded

LONGEST_NAME = 10
"""Of a link with a VLAN, as the names of interfaces have 15 signs at most (IFNAMSIZ), and 'vlan-' comes before it."""


@dataclass(frozen=True)
class Vlan:
    """The interface ``name`` on the interface ``below``, whose frames have the tag ``number``."""

    name: str
    below: str
    number: int

    @property
    def netdev(self) -> str:
        return sections(("NetDev", [("Name", self.name), ("Kind", "vlan")]), ("VLAN", [("Id", self.number)]))


def interface(link: str) -> str:
    """The one that [wan.LINK] has by its key vlan."""
    return f"vlan-{link}"


def named(names: Iterable[str | None]) -> Iterator[Vlan]:
    """Those that names of interfaces tell of, each once."""
    for name in dict.fromkeys(names):
        match = re.fullmatch(r"([A-Za-z0-9_-]+)\.(\d{1,4})", name or "", re.ASCII)
        if match and 1 <= int(match[2]) <= 4094:
            yield Vlan(match[0], match[1], int(match[2]))


def lines(vlans: Iterable[Vlan], below: str) -> Sequence[tuple[str, object]]:
    """What the section [Network] of the interface ``below`` says of those on it."""
    return [("VLAN", each.name) for each in vlans if each.below == below]


def bare(name: str, more: Iterable[tuple[str, object]] = ()) -> str:
    """The file of an interface that is up and has no address."""
    silent = [("DHCP", "no"), ("LinkLocalAddressing", "no"), ("IPv6AcceptRA", "no")]
    return unneeded(name, *silent, *more)
