"""The tunnels to a gateway: one for each link, bound to it, and one for everything else, which follows the best. Pure.

MPTCP's subflows have the addresses of the links' tunnels, and go inside. The tunnel for everything else carries what
MPTCP does not: it has one address inside, and WireGuard tells the gateway by each packet where it is outside.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from router.links import Link, working
from router.observed import EVERYWHERE, Address, Observed
from router.ours import BY_TUNNEL
from router.settings import RouterSettings
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.interface import Interface, Peer

METERED = 60
"""Seconds between two packets of an idle tunnel over a metered link, at least: NATs keep UDP for 120 (RFC 4787)."""
OVERHEAD = {4: 60, 6: 80}
"""Bytes that a packet grows by: the outer IP header, UDP, WireGuard's header and tag (wireguard.com/protocol)."""


LEAST_OF_IPV6 = 1280
"""Bytes: an interface on which packets have less room has no IPv6 (RFC 8200 section 5)."""


@dataclass(frozen=True)
class Tunnel:
    """One of them: the ``place`` of its link from 1, or 0, and the interface's number if it is there.

    ``address6`` has the one for everything else alone, if the gateway has IPv6 for the router.
    """

    place: int
    name: str
    address: IPv4Address
    interface: int | None = None
    address6: IPv6Address | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All that it has."""
        return (self.address, *([self.address6] if self.address6 else []))


@dataclass(frozen=True)
class Leg:
    """The tunnels to the ``inside`` address of a gateway, by their place; ``answers``: whether the gateway does."""

    inside: IPv4Address
    tunnels: Mapping[int, Tunnel] = field(default_factory=dict)
    answers: bool = False

    def of(self, link: Link) -> Tunnel | None:
        """The link's own, if its interface is there."""
        return self._standing(link.place + 1)

    @property
    def everything_else(self) -> Tunnel | None:
        """The one that is bound to no link, if its interface is there."""
        return self._standing(addresses.DEFAULT_SLOT)

    def takes(self, version: int) -> bool:
        """Whether everything else of this IP version is for the gateway now."""
        other = self.tunnels.get(addresses.DEFAULT_SLOT)
        return self.answers and other is not None and version in {each.version for each in other.addresses}

    def _standing(self, place: int) -> Tunnel | None:
        tunnel = self.tunnels.get(place)
        return tunnel if tunnel and tunnel.interface is not None else None


@dataclass(frozen=True)
class Setup:
    """All that a tunnel's interface is given: keys and peer, its addresses, the size of its packets in bytes.

    ``outside`` are the addresses of the link that it leaves by now. When they change it is given all of it again:
    wireguard-go(1) goes on sending from an address that is no longer here.
    """

    name: str
    interface: Interface = field(repr=False)
    address: IPv4Address
    mtu: int
    outside: tuple[Address, ...]
    address6: IPv6Address | None = None

    @property
    def inside(self) -> list[str]:
        """Its addresses, as ip(8) takes them."""
        return [f"{self.address}/32", *([f"{self.address6}/128"] if self.address6 else [])]


def leg(settings: RouterSettings, enrolment: Enrolment, observed: Observed, answers: bool) -> Leg:
    """The tunnels to the gateway of ``enrolment``, as far as they stand."""
    there = {interface.name: interface.index for interface in observed.interfaces}
    made = {
        place: Tunnel(
            place,
            name,
            addresses.tunnel_address(enrolment.addresses, place),
            there.get(name),
            _address6(enrolment, place),
        )
        for place, name in enumerate(settings.tunnel_names)
    }
    return Leg(enrolment.inside, made, answers)


def setups(
    settings: RouterSettings,
    enrolment: Enrolment,
    links: Sequence[Link],
    dead: Collection[str],
    shunned: Collection[str],
    found: Collection[Address],
    paths: Mapping[str, int],
    chosen: Mapping[str, Address] | None = None,
) -> Iterator[Setup]:
    """What the tunnels' interfaces should be given; ``found`` are the gateway's addresses outside, none while unknown.

    ``chosen`` are those among them that certain links should use.

    ``links`` as they rank. A link that is down leaves its tunnel as it was. ``paths`` has the largest packet in bytes
    that passes between a link and the gateway, by the link's name, where that was measured.
    """
    alive = working(links, {*dead, *shunned})
    if alive:
        yield _setup(settings, enrolment, addresses.DEFAULT_SLOT, alive, found, paths, chosen or {})
    for link in links:
        if link.ways:
            yield _setup(settings, enrolment, link.place + 1, [link], found, paths, chosen or {})


def scout(
    settings: RouterSettings, enrolment: Enrolment, links: Sequence[Link], found: Collection[Address], turn: int = 0
) -> Iterator[Setup]:
    """The tunnel to an earlier gateway, by the best of ``links``, which work; nothing but questions go in.

    Of several addresses that the link can reach it leads to that whose ``turn`` it is, counted round and round.
    """
    ways = [link for link in links if link.ways]
    if ways:
        usable = outsides(ways[0], found)
        chosen = {ways[0].name: usable[turn % len(usable)]} if usable else {}
        made = _setup(settings, enrolment, addresses.DEFAULT_SLOT, ways, found, {}, chosen)
        [peer] = made.interface.peers
        asked = replace(peer, allowed=(IPv4Network(enrolment.inside),), keepalive=0)
        interface = replace(made.interface, peers=(asked,))
        yield replace(made, name=settings.scout_name, interface=interface, address6=None)


def _setup(
    settings: RouterSettings,
    enrolment: Enrolment,
    place: int,
    links: Sequence[Link],
    found: Collection[Address],
    paths: Mapping[str, int],
    chosen: Mapping[str, Address],
) -> Setup:
    own = place == addresses.DEFAULT_SLOT
    address6 = _address6(enrolment, place)
    everywhere = (EVERYWHERE[4], *([EVERYWHERE[6]] if address6 else []))
    rooms = (
        room(link.interface.mtu, outside(link, found, chosen), paths.get(link.name)) for link in links if link.interface
    )
    room_of_all = min(rooms)
    peer = Peer(
        enrolment.public_key,
        everywhere if own else (IPv4Network(enrolment.inside),),
        _endpoint(enrolment, outside(links[0], found, chosen)),
        _keepalive(settings, links[0]),
    )
    return Setup(
        settings.tunnels.name(place),
        Interface(keys.private_key(enrolment.secret, place), (peer,), mark=BY_TUNNEL + place),
        addresses.tunnel_address(enrolment.addresses, place),
        # Where it has IPv6, packets that are too large for a link are cut outside (wireguard.com/protocol).
        max(room_of_all, LEAST_OF_IPV6) if address6 else room_of_all,
        links[0].addresses,
        address6,
    )


def _keepalive(settings: RouterSettings, link: Link) -> int:
    told = int(settings.tunnels.keepalive.seconds)
    return max(METERED, told) if link.wan.metered else told


def _address6(enrolment: Enrolment, place: int) -> IPv6Address | None:
    if enrolment.prefix is None or place != addresses.DEFAULT_SLOT:
        return None
    return addresses.default_tunnel_address(enrolment.prefix)


def room(interface: int, gateway: Address | None, path: int | None) -> int:
    """The largest packet inside a tunnel, in bytes: what was measured for the ``path`` to the ``gateway`` lessens it.

    Without that it is what fits the link's interface whichever IP version carries it. A measurement never gives more:
    the other end's packets are as large (gateway/settings.py, ``mtu``).
    """
    safe = interface - OVERHEAD[6]
    return safe if path is None or gateway is None else min(safe, path - OVERHEAD[gateway.version])


def outsides(link: Link, found: Collection[Address]) -> list[Address]:
    """The gateway's addresses of the IP versions in which ``link`` leads out."""
    versions = {way.version for way in link.ways}
    return [each for each in found if each.version in versions]


def outside(link: Link, found: Collection[Address], chosen: Mapping[str, Address] | None = None) -> Address | None:
    """The one of them that is ``chosen`` for the link, or the first; None if there is none."""
    usable = outsides(link, found)
    wanted = (chosen or {}).get(link.name)
    return wanted if wanted in usable else next(iter(usable), None)


def _endpoint(enrolment: Enrolment, address: Address | None) -> str | None:
    if address is None:
        return None
    return f"[{address}]:{enrolment.gateway.port}" if address.version == 6 else f"{address}:{enrolment.gateway.port}"
