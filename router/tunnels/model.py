"""The tunnels to a gateway: one for each link, bound to it, and the default tunnel, which follows the best link. Pure.

MPTCP's subflows have the addresses of the links' tunnels, and go inside. The default tunnel carries everything else: it
has one address inside, and WireGuard's roaming tells the gateway where it is outside.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network

from router.identifiers import BY_TUNNEL
from router.links.model import Link
from router.settings import RouterSettings
from tributary.kernel.state import EVERYWHERE, Address, KernelState
from tributary.settings.hosts import joined
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.interface import Interface, Peer

METERED = 60
"""Seconds between two packets of an idle tunnel over a metered link, at least: NATs keep UDP for 120 (RFC 4787)."""
OVERHEAD = {4: 60, 6: 80}
"""Bytes that a packet grows by: the outer IP header, UDP, WireGuard's header and tag (wireguard.com/protocol)."""

LEAST_OF_IPV6 = 1280
"""Bytes: an interface with a smaller MTU has no IPv6 (RFC 8200 section 5)."""

Outside = Callable[[Link], Address | None]
"""The public address by which a link reaches the gateway; None while unknown, or without one of its IP versions."""


@dataclass(frozen=True)
class Tunnel:
    """A tunnel that exists; ``interface`` is its index.

    Its first address is of IPv4. Only the default tunnel has another one, if the gateway has IPv6 for the router.
    """

    name: str
    addresses: tuple[Address, ...]
    interface: int

    @property
    def address(self) -> Address:
        return self.addresses[0]


@dataclass(frozen=True)
class GatewayTunnels:
    """The tunnels to the ``inside`` address of a gateway, by slot: 0 is the default tunnel, a link's are from 1.

    ``versions`` are the IP versions that the gateway has for the router; ``answers``: whether it does.
    """

    inside: IPv4Address
    tunnels: Mapping[int, Tunnel]
    versions: Collection[int]
    answers: bool

    def of(self, link: Link) -> Tunnel | None:
        """The link's own tunnel, if it exists."""
        return self.tunnels.get(link.slot + 1)

    @property
    def default_tunnel(self) -> Tunnel | None:
        """The one that is bound to no link, if it exists."""
        return self.tunnels.get(addresses.DEFAULT_SLOT)

    def takes(self, version: int) -> bool:
        """Whether the default route of this IP version leads to the gateway now."""
        return self.answers and version in self.versions


@dataclass(frozen=True)
class TunnelConfig:
    """The configuration of a tunnel's interface: keys and peer, addresses, MTU in bytes.

    ``outside`` are the addresses of the link that it leaves by. When they change, all of it is applied again:
    wireguard-go(1) goes on sending from an address that no longer exists.
    """

    name: str
    interface: Interface = field(repr=False)
    addresses: tuple[Address, ...]
    mtu: int
    outside: tuple[Address, ...]

    @property
    def inside(self) -> list[str]:
        """Its addresses in the form of ip(8)."""
        return [f"{each}/{each.max_prefixlen}" for each in self.addresses]


def gateway_tunnels(
    settings: RouterSettings, enrolment: Enrolment, observed: KernelState, answers: bool
) -> GatewayTunnels:
    """The tunnels to the gateway of ``enrolment`` that exist."""
    there = {interface.name: interface.index for interface in observed.interfaces}
    made = {
        slot: Tunnel(name, _inside(enrolment, slot), there[name])
        for slot, name in enumerate(settings.tunnel_names)
        if name in there
    }
    return GatewayTunnels(enrolment.inside, made, (4, 6) if enrolment.prefix else (4,), answers)


def tunnel_configs(
    settings: RouterSettings, enrolment: Enrolment, links: Sequence[Link], outside: Outside, paths: Mapping[str, int]
) -> Iterator[TunnelConfig]:
    """The configurations of all tunnels.

    ``links`` are in the order of their rank. The tunnel of a link that is down stays as it is. ``paths`` has the
    largest packet in bytes between a link and the gateway, by the link's name, where it was measured.
    """
    working = [link for link in links if link.works]
    if working:
        yield _setup(settings, enrolment, addresses.DEFAULT_SLOT, working, outside, paths)
    for link in links:
        if link.next_hops:
            yield _setup(settings, enrolment, link.slot + 1, [link], outside, paths)


def failback_tunnel(
    settings: RouterSettings, enrolment: Enrolment, links: Sequence[Link], outside: Outside
) -> Iterator[TunnelConfig]:
    """The tunnel to an earlier gateway, by the best of the working links, for probes only."""
    working = [link for link in links if link.works]
    if working:
        made = _setup(settings, enrolment, addresses.DEFAULT_SLOT, working, outside, {})
        [peer] = made.interface.peers
        asked = replace(peer, allowed=(IPv4Network(enrolment.inside),), keepalive=0)
        interface = replace(made.interface, peers=(asked,))
        yield replace(made, name=settings.failback_name, interface=interface, addresses=made.addresses[:1])


def _setup(
    settings: RouterSettings,
    enrolment: Enrolment,
    slot: int,
    links: Sequence[Link],
    outside: Outside,
    paths: Mapping[str, int],
) -> TunnelConfig:
    inside = _inside(enrolment, slot)
    everywhere = tuple(EVERYWHERE[each.version] for each in inside)
    room_of_all = min(
        tunnel_mtu(link.interface.mtu, outside(link), paths.get(link.name)) for link in links if link.interface
    )
    address = outside(links[0])
    peer = Peer(
        enrolment.public_key,
        everywhere if slot == addresses.DEFAULT_SLOT else (IPv4Network(enrolment.inside),),
        joined(str(address), enrolment.gateway.port) if address else None,
        _keepalive(settings, links[0]),
    )
    return TunnelConfig(
        settings.tunnels.name(slot),
        Interface(keys.private_key(enrolment.secret, slot), (peer,), mark=BY_TUNNEL + slot),
        inside,
        # With IPv6, packets that are too large for a link are fragmented outside (wireguard.com/protocol).
        max(room_of_all, LEAST_OF_IPV6) if len(inside) > 1 else room_of_all,
        links[0].addresses,
    )


def _keepalive(settings: RouterSettings, link: Link) -> int:
    configured = int(settings.tunnels.keepalive.seconds)
    return max(METERED, configured) if link.wan.metered else configured


def _inside(enrolment: Enrolment, slot: int) -> tuple[Address, ...]:
    address = addresses.tunnel_address(enrolment.addresses, slot)
    if enrolment.prefix is None or slot != addresses.DEFAULT_SLOT:
        return (address,)
    return address, addresses.default_tunnel_address(enrolment.prefix)


def tunnel_mtu(interface: int, gateway: Address | None, path: int | None) -> int:
    """The MTU inside a tunnel, in bytes, by the interface's MTU and the measured ``path`` to the ``gateway``.

    Without a measurement it fits the link's interface by either IP version. A measurement never raises it: the packets
    of the other end are as large (gateway/settings.py, ``mtu``).
    """
    safe = interface - OVERHEAD[6]
    return safe if path is None or gateway is None else min(safe, path - OVERHEAD[gateway.version])
