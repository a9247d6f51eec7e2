"""What the kernel says at one moment: interfaces, addresses, routes, rules, endpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERY_BIT = 0xFFFFFFFF
EVERYWHERE: Mapping[int, Network] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface; ``mtu`` in bytes.

    ``has_carrier`` is what the other end of its cable, or its radio, decides.
    """

    index: int
    name: str
    is_up: bool = True
    has_carrier: bool = True
    is_loopback: bool = False
    is_enslaved: bool = False
    macs: tuple[str, ...] = ()
    mtu: int = 1500
    driver: str = ""
    bus: str = ""
    other_names: tuple[str, ...] = ()
    """Its alternative names (ip-link(8), altname)."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names that settings may call it by."""
        return (self.name, *self.other_names)


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An address of an interface.

    ``is_usable``: of global scope, and no other host was found to have it. ``is_lasting``: neither deprecated nor a
    temporary one of RFC 8981. ``created`` in hundredths of a second since boot.
    """

    interface: int
    address: Address
    is_usable: bool = True
    is_lasting: bool = True
    created: int = 0


@dataclass(frozen=True, slots=True)
class Route:
    """A unicast route; without ``gateway`` the destination is on the link. ``source`` is the preferred address.

    Without ``interface`` the destination is unreachable, and who sends there is told so at once.
    """

    table: int
    destination: Network
    gateway: Address | None
    interface: int | None
    metric: int
    protocol: int
    source: Address | None = None

    @property
    def is_default(self) -> bool:
        """Whether it leads everywhere."""
        return self.destination.prefixlen == 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Packets of an IP version whose netfilter mark is ``value`` where ``mask`` has bits."""

    version: int
    value: int
    mask: int = EVERY_BIT


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy routing rule: ``packets``, from there or with a mark, look into ``table``; None is unreachable."""

    priority: int
    packets: Address | Network | Mark
    table: int | None
    protocol: int


class Flags(IntFlag):
    """MPTCP_PM_ADDR_FLAG_* of linux/mptcp.h."""

    SIGNAL = 1
    SUBFLOW = 2
    BACKUP = 4
    FULLMESH = 8
    IMPLICIT = 16
    """Made by the kernel for an address that a subflow has and no endpoint."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that the kernel's path manager uses; ``interface`` is 0 when none is said."""

    address: Address
    interface: int
    flags: Flags


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the kernel's path manager, for each session: subflows beside the first, announced addresses to join to."""

    subflows: int
    accepted_addresses: int


@dataclass(frozen=True, slots=True)
class Octets:
    """Bytes that an interface has received and sent since it was made."""

    received: int
    sent: int

    @property
    def both(self) -> int:
        """In and out together."""
        return self.received + self.sent


@dataclass(frozen=True)
class Observed:
    """One look at a network namespace; endpoints by their id."""

    interfaces: tuple[Interface, ...] = ()
    addresses: tuple[InterfaceAddress, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    limits: Limits = Limits(2, 0)
