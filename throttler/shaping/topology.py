"""The HTB trees that are installed while the throttler runs: one for each interface and direction that needs it.

interface (download), or tributary-up (upload)
  htb 5452:                       root
    5452:fNN0                     root class: the link's rate
      5452:1 ... 5452:4000        throttled subflows, sessions, clients, rules
      5452:fNN1                   default class: all other packets, if the policy gives the link a rate
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count

from throttler.policy.model import Policy
from throttler.policy.values import HIGHEST, Direction

UPLOAD_DEVICE = "tributary-up"
"""The IFB device that shapes incoming packets; one for all interfaces."""
FIRST_ROOT_CLASS = 0xF000
_DEFAULT_SHARE = 10
"""The default class is guaranteed a tenth of the link, and may borrow all of it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of an interface. ``rate`` is in bits per second, None for no limit.

    A link without its interface is an upload's: its classes are on the IFB device.
    """

    number: int
    interface: str
    direction: Direction
    rate: int | None
    is_there: bool = True

    @property
    def device(self) -> str:
        return device(self.interface, self.direction)

    @property
    def root_class(self) -> int:
        """The minor number of the class above all others; the same in both directions."""
        return FIRST_ROOT_CLASS + 2 * self.number

    @property
    def default_class(self) -> int:
        """The minor number of the class for all packets that are not throttled (HTB's ``default``)."""
        return self.root_class + 1

    @property
    def root_rate(self) -> int:
        """Bits per second of the root class."""
        return self.rate or HIGHEST.amount

    @property
    def default_rate(self) -> int:
        """Bits per second that the default class is guaranteed."""
        return self.root_rate // _DEFAULT_SHARE


@dataclass(frozen=True, slots=True)
class Topology:
    """All links that need a tree, the code points that rules write, and the directions that need an nft table."""

    links: tuple[Link, ...] = ()
    dscp_values: frozenset[int] = frozenset()
    tables: frozenset[Direction] = frozenset()

    @property
    def devices(self) -> frozenset[str]:
        return frozenset(link.device for link in self.links)

    def link(self, interface: str, direction: Direction) -> Link:
        """The link of that interface and direction; it must exist."""
        return next(link for link in self.links if (link.interface, link.direction) == (interface, direction))


def device(interface: str, direction: Direction) -> str:
    """The device that shapes ``interface`` in that direction."""
    return interface if direction is Direction.DOWNLOAD else UPLOAD_DEVICE


def topology(policy: Policy, before: Topology | None = None, absent: Collection[str] = ()) -> Topology:
    """The topology that ``policy`` needs, and the links of ``before``, which remain with their numbers.

    An ``absent`` interface has no link, except an upload link that existed before.
    """
    before = before or Topology()
    numbers = _numbers(policy.interfaces, {link.interface: link.number for link in before.links})
    wanted: dict[tuple[str, Direction], int | None] = {(link.interface, link.direction): None for link in before.links}
    wanted |= {key: rate for key, rate in _needs(policy).items() if key[0] not in absent or key in wanted}
    links = tuple(
        Link(numbers[interface], interface, way, rate, interface not in absent)
        for (interface, way), rate in wanted.items()
        if interface not in absent or way is Direction.UPLOAD
    )
    dscp_values = frozenset(rule.dscp.code for rule in policy.rules if rule.dscp is not None)
    tables = before.tables | {Direction.DOWNLOAD, *(link.direction for link in links)}
    return Topology(links, dscp_values | before.dscp_values, tables)


def _needs(policy: Policy) -> dict[tuple[str, Direction], int | None]:
    """The links that rules or link rates of ``policy`` name, with their rates."""
    acted_on = {
        (interface, way)
        for rule in policy.rules
        if rule.acts
        for interface in policy.interfaces_of(rule)
        for way in rule.direction.each
    }
    needs: dict[tuple[str, Direction], int | None] = {}
    for interface in policy.interfaces:
        for way in Direction:
            rate = policy.link_rate(interface, way)
            if rate is not None or (interface, way) in acted_on:
                needs[interface, way] = rate.amount if rate else None
    return needs


def _numbers(interfaces: Collection[str], known: dict[str, int]) -> dict[str, int]:
    free = (number for number in count() if number not in known.values())
    return known | {interface: next(free) for interface in interfaces if interface not in known}
