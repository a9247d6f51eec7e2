"""The tunnels to a gateway: one for each link, bound to it, and one for everything else, which follows the best. Pure.

MPTCP's subflows have the addresses of the links' tunnels, and go inside. The tunnel for everything else carries what
MPTCP does not: it has one address inside, and WireGuard tells the gateway by each packet where it is outside.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network

from cpe.links import Link
from cpe.observed import EVERYWHERE, Address, Observed
from cpe.ours import BY_TUNNEL
from cpe.settings import CpeSettings
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.interface import Interface, Peer

METERED = 60
"""Seconds between two packets of an idle tunnel over a metered link, at least: NATs keep UDP for 120 (RFC 4787)."""
OVERHEAD = {4: 60, 6: 80}
"""Bytes that a packet grows by: the outer IP header, UDP, WireGuard's header and tag (wireguard.com/protocol)."""


@dataclass(frozen=True)
class Tunnel:
    """One of them: the ``place`` of its link from 1, or 0, and the interface's number if it is there."""

    place: int
    name: str
    address: IPv4Address
    interface: int | None = None


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
        return self._standing(addresses.EVERYTHING_ELSE)

    def _standing(self, place: int) -> Tunnel | None:
        tunnel = self.tunnels.get(place)
        return tunnel if tunnel and tunnel.interface is not None else None


@dataclass(frozen=True)
class Setup:
    """All that a tunnel's interface is given: keys and peer, its address, the size of its packets in bytes.

    ``outside`` are the addresses of the link that it leaves by now. When they change it is given all of it again:
    wireguard-go(1) goes on sending from an address that is no longer here.
    """

    name: str
    interface: Interface = field(repr=False)
    address: IPv4Address
    mtu: int
    outside: tuple[Address, ...]


def leg(settings: CpeSettings, enrolment: Enrolment, observed: Observed, answers: bool) -> Leg:
    """The tunnels to the gateway of ``enrolment``, as far as they stand."""
    there = {interface.name: interface.index for interface in observed.interfaces}
    made = {
        place: Tunnel(place, name, addresses.of_tunnel(enrolment.addresses, place), there.get(name))
        for place, name in enumerate(settings.tunnel_names)
    }
    return Leg(enrolment.inside, made, answers)


def setups(
    settings: CpeSettings,
    enrolment: Enrolment,
    links: Sequence[Link],
    dead: Collection[str],
    shunned: Collection[str],
    found: Collection[Address],
    paths: Mapping[str, int],
) -> Iterator[Setup]:
    """What the tunnels' interfaces should be given; ``found`` are the gateway's addresses outside, none while unknown.

    ``links`` as they rank. A link that is down leaves its tunnel as it was. ``paths`` has the largest packet in bytes
    that passes between a link and the gateway, by the link's name, where that was measured.
    """
    alive = [link for link in links if link.ways and link.name not in dead and link.name not in shunned]
    if alive:
        yield _setup(settings, enrolment, addresses.EVERYTHING_ELSE, alive, found, paths)
    for link in links:
        if link.ways:
            yield _setup(settings, enrolment, link.place + 1, [link], found, paths)


def scout(
    settings: CpeSettings, enrolment: Enrolment, links: Sequence[Link], found: Collection[Address]
) -> Iterator[Setup]:
    """The tunnel to an earlier gateway, by the best of ``links``, which work; nothing but questions go in."""
    ways = [link for link in links if link.ways]
    if ways:
        made = _setup(settings, enrolment, addresses.EVERYTHING_ELSE, ways, found, {})
        [peer] = made.interface.peers
        asked = replace(peer, allowed=(IPv4Network(enrolment.inside),), keepalive=0)
        yield replace(made, name=settings.scout_name, interface=replace(made.interface, peers=(asked,)))


def _setup(
    settings: CpeSettings,
    enrolment: Enrolment,
    place: int,
    links: Sequence[Link],
    found: Collection[Address],
    paths: Mapping[str, int],
) -> Setup:
    own = place == addresses.EVERYTHING_ELSE
    allowed = IPv4Network(str(EVERYWHERE[4])) if own else IPv4Network(enrolment.inside)
    peer = Peer(
        enrolment.public_key,
        (allowed,),
        _endpoint(enrolment, links[0], found),
        _keepalive(settings, links[0]),
    )
    return Setup(
        settings.tunnels.name(place),
        Interface(keys.private_key(enrolment.secret, place), (peer,), mark=BY_TUNNEL + place),
        addresses.of_tunnel(enrolment.addresses, place),
        min(room(link.interface.mtu, outside(link, found), paths.get(link.name)) for link in links if link.interface),
        links[0].addresses,
    )


def _keepalive(settings: CpeSettings, link: Link) -> int:
    told = int(settings.tunnels.keepalive.seconds)
    return max(METERED, told) if link.wan.metered else told


def room(interface: int, gateway: Address | None, path: int | None) -> int:
    """The largest packet inside a tunnel, in bytes: what was measured for the ``path`` to the ``gateway`` lessens it.

    Without that it is what fits the link's interface whichever IP version carries it. A measurement never gives more:
    the other end's packets are as large (gateway/settings.py, ``mtu``).
    """
    safe = interface - OVERHEAD[6]
    return safe if path is None or gateway is None else min(safe, path - OVERHEAD[gateway.version])


def outside(link: Link, found: Collection[Address]) -> Address | None:
    """The gateway's address of an IP version in which ``link`` leads out."""
    versions = {way.version for way in link.ways}
    return next((each for each in found if each.version in versions), None)


def _endpoint(enrolment: Enrolment, link: Link, found: Collection[Address]) -> str | None:
    address = outside(link, found)
    if address is None:
        return None
    return f"[{address}]:{enrolment.gateway.port}" if address.version == 6 else f"{address}:{enrolment.gateway.port}"
