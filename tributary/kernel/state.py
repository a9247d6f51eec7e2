"""The state of the kernel at one moment: interfaces, addresses, routes, rules, endpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from socket import AF_INET, AF_INET6
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERY_BIT = 0xFFFFFFFF
FAMILIES: Mapping[int, int] = {4: AF_INET, 6: AF_INET6}
"""Address families by IP version."""
EVERYWHERE: Mapping[int, Network] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface; ``mtu`` in bytes. ``has_carrier``: the other end of the cable or radio is up."""

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
        """All names that settings may use for it."""
        return (self.name, *self.other_names)


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An address of an interface.

    ``is_usable``: of global scope, and not found to be a duplicate. ``is_lasting``: neither deprecated nor a temporary
    address of RFC 8981. ``created`` in hundredths of a second since boot.
    """

    interface: int
    address: Address
    is_usable: bool = True
    is_lasting: bool = True
    created: int = 0


class OwnAddress(NamedTuple):
    """An IPv6 address that this machine gives itself, and the index of its interface."""

    interface: int
    address: IPv6Interface


@dataclass(frozen=True, slots=True)
class Route:
    """A unicast route; without ``gateway`` the destination is on the link. ``source`` is the preferred source address.

    Without ``interface`` the destination is unreachable, and senders get an error at once.
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
        return self.destination.prefixlen == 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Packets of an IP version whose netfilter mark is ``value`` under ``mask``."""

    version: int
    value: int
    mask: int = EVERY_BIT


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy routing rule: ``packets`` from an address or with a mark look up ``table``; None is unreachable."""

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
    """Created by the kernel for the address of a subflow without an endpoint."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that the kernel's path manager uses; ``interface`` is 0 for any."""

    address: Address
    interface: int
    flags: Flags


class Limits(NamedTuple):
    """The path manager's limits for each session: subflows besides the first, announced addresses to join to."""

    subflows: int
    accepted_addresses: int


USUAL = Limits(2, 0)
"""What the kernel begins with."""


@dataclass(frozen=True, slots=True)
class Octets:
    """Bytes that an interface has received and sent since it was created."""

    received: int
    sent: int

    @property
    def total(self) -> int:
        return self.received + self.sent


@dataclass(frozen=True)
class KernelState:
    """A snapshot of a network namespace; endpoints by their id."""

    interfaces: tuple[Interface, ...] = ()
    addresses: tuple[InterfaceAddress, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    limits: Limits = USUAL
