"""The nft table of the tunnels, as text. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path

from gateway.registry import Routers
from gateway.settings import GatewaySettings
from squid import targets
from tributary.kernel import nft
from tributary.settings.ports import Ports, disjoint
from tributary.settings.templates import rendered
from tributary.wireguard.addresses import BLOCK, DEFAULT_SLOT, LAN, block_of, gateway, max_routers, tunnel_address
from tributary.wireguard.interface import Network

TABLE = "tributary-gateway"

_ROUTER, _LAN = IPv4Network((0, BLOCK)).netmask, IPv6Network((0, LAN)).netmask
_BEGUN = {"rate": 200, "burst": 1000}
"""How many connections of a router may begin in a second, and how many at once."""
_NAMES_BY_TCP = 5
"""Connections of a router to dnsmasq, which serves 20 at once of all routers together, idle ones for minutes."""
_COUNTED = re.compile(r"[ \t]*# count \d+")
_SEEN = re.compile(r"^(\t\tflags dynamic.*\n(?:\t\t(?:timeout|comment) .*\n)*)\t\telements = \{[^}]*\}\n", re.MULTILINE)
_PART = re.compile(r"^(?:\t| {4})(set|map|chain) (\S+) \{\n(.*?)^(?:\t| {4})\}", re.MULTILINE | re.DOTALL)
_MOST_ELEMENTS = 65536
"""The kernel makes room for all when it makes a set. Elements that have expired count for up to a second."""


@dataclass(frozen=True)
class _Bound:
    """Which connections of a router are counted, by its addresses: in sets of this name, by rules of this chain. There
    may be as many as this, or as the settings say.
    """

    name: str
    about: str
    type: str
    key: str
    chain: str = "from_router"
    most: int | None = None


_BOUNDS = (
    _Bound("from4", "from each router", "ipv4_addr", f"ip saddr & {_ROUTER}"),
    _Bound("from6", "from each LAN by IPv6", "ipv6_addr", f"ip6 saddr & {_LAN}"),
    _Bound("to4", "from strangers to each router", "ipv4_addr", f"ip daddr & {_ROUTER}", "to_router"),
    _Bound("names4", "of each router for names", "ipv4_addr", f"ip saddr & {_ROUTER}", "names_by_tcp", _NAMES_BY_TCP),
)


def text(settings: GatewaySettings, routers: Routers, for_tunnels: Sequence[int]) -> str:
    """For ``nft --file -``: replaces the whole table.

    Packets of the IP versions in ``for_tunnels`` are forwarded from and to tunnels only.
    """
    return rendered(
        Path(__file__).with_name("rules.nft.j2"),
        interface=settings.interface,
        network=settings.network,
        inside=gateway(settings.network),
        ports=settings.converter_ports,
        dns=settings.dns,
        refused=[each for each in refused(settings) if each.version == 4],
        forwards=list(_forwards(settings.network, routers)),
        lan_prefix=settings.lan_prefix,
        refused6=[each for each in refused(settings) if each.version == 6],
        translates_lan_prefix=settings.translates_lan_prefix,
        for_tunnels=for_tunnels,
        refused_ports=disjoint(settings.refused_ports),
        router=_BOUNDS[0].key,
        bounds=[replace(each, most=each.most or settings.connections) for each in _bounds(settings, routers)],
        begun=_BEGUN,
        dns_rate=settings.dns_rate,
        size=min(4 * (max_routers(settings.network) + 1), _MOST_ELEMENTS),
    )


def _bounds(settings: GatewaySettings, routers: Routers) -> Iterator[_Bound]:
    from4, from6, to4, names4 = _BOUNDS
    yield from4
    if settings.lan_prefix:
        yield from6
    if any(router.forward for router in routers.values()):
        yield to4
    if settings.dns:
        yield names4


@dataclass(frozen=True)
class _Forward:
    """Ports that are forwarded to a router, at its default tunnel: the old one until a rotation ends."""

    number: int
    address: IPv4Address
    ports: Sequence[Ports]


def _forwards(network: IPv4Network, routers: Routers) -> Iterator[_Forward]:
    for router in routers.values():
        if router.forward:
            address = tunnel_address(block_of(network, router.number), DEFAULT_SLOT)
            yield _Forward(router.number, address, router.forward)


def most_begun(seconds: int) -> int:
    """How many connections of a router begin within some seconds at most."""
    return _BEGUN["burst"] + _BEGUN["rate"] * seconds


def without_seen(listing: str) -> str:
    """The kernel's ``listing`` of the table without what packets have put into dynamic sets, and how much that is."""
    return _SEEN.sub(r"\1", _COUNTED.sub("", listing))


def keeping(new: str, listing: str) -> str:
    """The rules ``new`` in place of those of the kernel's ``listing``, a listing without what packets have put into
    sets: that stays in each dynamic set that both have alike, as do the counters.
    """
    return new.replace(nft.delete(f"inet {TABLE}"), "".join(f"{each}\n" for each in _removals(new, listing)), 1)


def _removals(new: str, listing: str) -> Iterator[str]:
    yield f"flush table inet {TABLE}"
    kept = _dynamic_sets(new)
    for kind, name, body in _PART.findall(listing):
        if kind == "map":
            # Its elements lead to chains, which cannot be deleted before.
            yield f"flush map inet {TABLE} {name}"
        if kind != "set" or kept.get(name) != body.split():
            yield f"delete {kind} inet {TABLE} {name}"


def _dynamic_sets(rules: str) -> dict[str, list[str]]:
    """The words of each one's declaration."""
    parts = ((name, body.split()) for kind, name, body in _PART.findall(rules) if kind == "set")
    return {name: words for name, words in parts if {"dynamic", "dynamic,timeout"} & set(words)}


def forward_targets(network: IPv4Network, routers: Routers) -> list[tuple[Ports, IPv4Address]]:
    """All forwarded ports, and the address that each is forwarded to."""
    return [(ports, forward.address) for forward in _forwards(network, routers) for ports in forward.ports]


def refused(settings: GatewaySettings) -> Sequence[Network]:
    """The networks that routers may not reach through the gateway."""
    return targets.disjoint([*targets.never(), *targets.private(settings.private_targets)])
