"""The tunnels to a gateway: one for each link, bound to it, and the default tunnel, which follows the best link. Pure.

MPTCP's subflows have the addresses of the links' tunnels, and go inside. The default tunnel carries everything else: it
has one address inside, and WireGuard's roaming tells the gateway where it is outside.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from router.identifiers import BY_TUNNEL
from router.links.model import Link, working
from router.settings import RouterSettings
from tributary.kernel.state import EVERYWHERE, Address, KernelState
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.interface import Interface, Peer

METERED = 60
"""Seconds between two packets of an idle tunnel over a metered link, at least: NATs keep UDP for 120 (RFC 4787)."""
OVERHEAD = {4: 60, 6: 80}
"""Bytes that a packet grows by: the outer IP header, UDP, WireGuard's header and tag (wireguard.com/protocol)."""


LEAST_OF_IPV6 = 1280
"""Bytes: an interface with a smaller MTU has no IPv6 (RFC 8200 section 5)."""


@dataclass(frozen=True)
class Tunnel:
    """``slot`` is that of its link from 1, or 0 for the default tunnel; ``interface`` its index if it exists.

    Only the default tunnel has ``address6``, if the gateway has IPv6 for the router.
    """

    slot: int
    name: str
    address: IPv4Address
    interface: int | None = None
    address6: IPv6Address | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address, *([self.address6] if self.address6 else []))


@dataclass(frozen=True)
class GatewayTunnels:
    """The tunnels to the ``inside`` address of a gateway, by slot; ``answers``: whether the gateway does."""

    inside: IPv4Address
    tunnels: Mapping[int, Tunnel] = field(default_factory=dict)
    answers: bool = False

    def of(self, link: Link) -> Tunnel | None:
        """The link's own tunnel, if its interface exists."""
        return self._existing(link.slot + 1)

    @property
    def default_tunnel(self) -> Tunnel | None:
        """The one that is bound to no link, if its interface exists."""
        return self._existing(addresses.DEFAULT_SLOT)

    def takes(self, version: int) -> bool:
        """Whether the default route of this IP version leads to the gateway now."""
        other = self.tunnels.get(addresses.DEFAULT_SLOT)
        return self.answers and other is not None and version in {each.version for each in other.addresses}

    def _existing(self, slot: int) -> Tunnel | None:
        tunnel = self.tunnels.get(slot)
        return tunnel if tunnel and tunnel.interface is not None else None


@dataclass(frozen=True)
class TunnelConfig:
    """The configuration of a tunnel's interface: keys and peer, addresses, MTU in bytes.

    ``outside`` are the addresses of the link that it leaves by. When they change, all of it is applied again:
    wireguard-go(1) goes on sending from an address that no longer exists.
    """

    name: str
    interface: Interface = field(repr=False)
    address: IPv4Address
    mtu: int
    outside: tuple[Address, ...]
    address6: IPv6Address | None = None

    @property
    def inside(self) -> list[str]:
        """Its addresses in the form of ip(8)."""
        return [f"{self.address}/32", *([f"{self.address6}/128"] if self.address6 else [])]


def gateway_tunnels(
    settings: RouterSettings, enrolment: Enrolment, observed: KernelState, answers: bool
) -> GatewayTunnels:
    """The tunnels to the gateway of ``enrolment`` that exist."""
    there = {interface.name: interface.index for interface in observed.interfaces}
    made = {
        slot: Tunnel(
            slot, name, addresses.tunnel_address(enrolment.addresses, slot), there.get(name), _address6(enrolment, slot)
        )
        for slot, name in enumerate(settings.tunnel_names)
    }
    return GatewayTunnels(enrolment.inside, made, answers)


def tunnel_configs(
    settings: RouterSettings,
    enrolment: Enrolment,
    links: Sequence[Link],
    down: Collection[str],
    suspect: Collection[str],
    found: Collection[Address],
    paths: Mapping[str, int],
    chosen: Mapping[str, Address] | None = None,
) -> Iterator[TunnelConfig]:
    """The configurations of all tunnels; ``found`` are the gateway's public addresses, empty while unknown.

    ``links`` are in the order of their rank. The tunnel of a link that is down stays as it is. ``paths`` has the
    largest packet in bytes between a link and the gateway, by the link's name, where it was measured. ``chosen`` are
    the addresses that certain links shall use.
    """
    alive = working(links, {*down, *suspect})
    if alive:
        yield _setup(settings, enrolment, addresses.DEFAULT_SLOT, alive, found, paths, chosen or {})
    for link in links:
        if link.next_hops:
            yield _setup(settings, enrolment, link.slot + 1, [link], found, paths, chosen or {})


def failback_tunnel(
    settings: RouterSettings, enrolment: Enrolment, links: Sequence[Link], found: Collection[Address], turn: int = 0
) -> Iterator[TunnelConfig]:
    """The tunnel to an earlier gateway, by the best of the working ``links``, for probes only.

    Of several addresses that the link can reach it uses the one whose ``turn`` it is, round robin.
    """
    next_hops = [link for link in links if link.next_hops]
    if next_hops:
        usable = outsides(next_hops[0], found)
        chosen = {next_hops[0].name: usable[turn % len(usable)]} if usable else {}
        made = _setup(settings, enrolment, addresses.DEFAULT_SLOT, next_hops, found, {}, chosen)
        [peer] = made.interface.peers
        asked = replace(peer, allowed=(IPv4Network(enrolment.inside),), keepalive=0)
        interface = replace(made.interface, peers=(asked,))
        yield replace(made, name=settings.failback_name, interface=interface, address6=None)


def _setup(
    settings: RouterSettings,
    enrolment: Enrolment,
    slot: int,
    links: Sequence[Link],
    found: Collection[Address],
    paths: Mapping[str, int],
    chosen: Mapping[str, Address],
) -> TunnelConfig:
    own = slot == addresses.DEFAULT_SLOT
    address6 = _address6(enrolment, slot)
    everywhere = (EVERYWHERE[4], *([EVERYWHERE[6]] if address6 else []))
    rooms = (
        tunnel_mtu(link.interface.mtu, outside(link, found, chosen), paths.get(link.name))
        for link in links
        if link.interface
    )
    room_of_all = min(rooms)
    peer = Peer(
        enrolment.public_key,
        everywhere if own else (IPv4Network(enrolment.inside),),
        _endpoint(enrolment, outside(links[0], found, chosen)),
        _keepalive(settings, links[0]),
    )
    return TunnelConfig(
        settings.tunnels.name(slot),
        Interface(keys.private_key(enrolment.secret, slot), (peer,), mark=BY_TUNNEL + slot),
        addresses.tunnel_address(enrolment.addresses, slot),
        # With IPv6, packets that are too large for a link are fragmented outside (wireguard.com/protocol).
        max(room_of_all, LEAST_OF_IPV6) if address6 else room_of_all,
        links[0].addresses,
        address6,
    )


def _keepalive(settings: RouterSettings, link: Link) -> int:
    configured = int(settings.tunnels.keepalive.seconds)
    return max(METERED, configured) if link.wan.metered else configured


def _address6(enrolment: Enrolment, slot: int) -> IPv6Address | None:
    if enrolment.prefix is None or slot != addresses.DEFAULT_SLOT:
        return None
    return addresses.default_tunnel_address(enrolment.prefix)


def tunnel_mtu(interface: int, gateway: Address | None, path: int | None) -> int:
    """The MTU inside a tunnel, in bytes, by the interface's MTU and the measured ``path`` to the ``gateway``.

    Without a measurement it fits the link's interface by either IP version. A measurement never raises it: the packets
    of the other end are as large (gateway/settings.py, ``mtu``).
    """
    safe = interface - OVERHEAD[6]
    return safe if path is None or gateway is None else min(safe, path - OVERHEAD[gateway.version])


def outsides(link: Link, found: Collection[Address]) -> list[Address]:
    """The gateway's addresses of the IP versions of the link's next hops."""
    versions = {next_hop.version for next_hop in link.next_hops}
    return [each for each in found if each.version in versions]


def outside(link: Link, found: Collection[Address], chosen: Mapping[str, Address] | None = None) -> Address | None:
    """The one of them that is ``chosen`` for the link, or the first; None if there is none."""
    usable = outsides(link, found)
    preferred = (chosen or {}).get(link.name)
    return preferred if preferred in usable else next(iter(usable), None)


def _endpoint(enrolment: Enrolment, address: Address | None) -> str | None:
    if address is None:
        return None
    return f"[{address}]:{enrolment.gateway.port}" if address.version == 6 else f"{address}:{enrolment.gateway.port}"
