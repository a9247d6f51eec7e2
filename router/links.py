"""Which interface is which link, by what ways it leads out, and if by none, why. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import IPv6Network

from router.observed import Address, Interface, InterfaceAddress, Observed, Route
from router.ours import MAIN, SHAPED, is_our_route
from router.settings import RouterSettings, Wan
from tributary.prefix_delegation import prefix_of


class Reason(StrEnum):
    """Why a link is down."""

    NO_INTERFACE = "no interface fits its rule"
    SWITCHED_OFF = "its interface is switched off"
    NO_CARRIER = "no carrier"
    NO_ADDRESS = "no global address"
    SAME_ADDRESS = "another link has its address"
    LAN_NETWORK = "its network is the LAN's own"
    NO_GATEWAY = "no default route"
    NO_ANSWER = "the probed target does not answer"
    LOGIN = "a login page is in the way"


@dataclass(frozen=True)
class Way:
    """How a link leads out for one IP version: its addresses, the best first, and its gateway.

    Without a gateway all is on the link (point-to-point). ``on_link`` are the routes of its neighbourhood in main.
    ``delegated`` is a prefix of its provider's for the LAN.
    """

    version: int
    addresses: tuple[Address, ...]
    gateway: Address | None
    on_link: tuple[Route, ...]
    delegated: IPv6Network | None = None


@dataclass(frozen=True)
class Link:
    """One [wan.NAME]: ``place`` in the settings file, ``rank`` for first subflows, both from 0.

    ``down`` says why it has no way out: a Reason, or what its settings say (policy.py).
    """

    name: str
    wan: Wan
    place: int
    rank: int
    interface: Interface | None = None
    addresses: tuple[Address, ...] = ()
    ways: tuple[Way, ...] = ()
    down: str | None = None
    kept_from: tuple[int, ...] = ()
    """The IP versions in which it leads out and must not, since the settings say so."""

    @property
    def delegated(self) -> IPv6Network | None:
        """The prefix for the LAN that leads here, while the link leads out."""
        return next((way.delegated for way in self.ways if way.delegated), None)


def links(settings: RouterSettings, observed: Observed) -> tuple[Link, ...]:
    """All links, as they rank."""
    chosen = _interfaces(settings, observed.interfaces)
    lan = {each.index for each in observed.interfaces if settings.lan in each.names}
    found: list[Link] = []
    for rank, name in enumerate(settings.by_rank):
        wan, place = settings.wan[name], list(settings.wan).index(name)
        link = Link(name, wan, place, rank, chosen.get(name))
        taken = frozenset(address for other in found for way in other.ways for address in way.addresses)
        found.append(_judged(link, observed, taken, lan))
    return tuple(found)


_SPECIAL = frozenset('"\\*')
"""What the kernel takes in a name, and nft does not between quotes, or takes for any name that begins so."""


def _interfaces(settings: RouterSettings, interfaces: Sequence[Interface]) -> dict[str, Interface]:
    """An interface for each link: the oldest that fits and that no link before it in the file has."""
    own = (*settings.tunnel_names, settings.scout_name) if settings.enrolment else ()
    free = [
        each
        for each in interfaces
        if not (each.is_loopback or each.is_enslaved or each.name.startswith(SHAPED) or each.name in own)
        and not _SPECIAL.intersection(each.name)
    ]
    free.sort(key=lambda each: each.index)
    chosen: dict[str, Interface] = {}
    for name, wan in settings.wan.items():
        found = next((each for each in free if fits(wan, each)), None)
        if found is not None:
            chosen[name] = found
            free.remove(found)
    return chosen


def working(links: Sequence[Link], unfit: Collection[str]) -> list[Link]:
    """Those that lead out and are not named ``unfit``."""
    return [link for link in links if link.ways and link.name not in unfit]


def fits(wan: Wan, interface: Interface) -> bool:
    """Whether every rule that ``wan`` has fits."""
    return (
        (wan.interface is None or any(fnmatchcase(name, wan.interface) for name in interface.names))
        and (wan.driver is None or fnmatchcase(interface.driver, wan.driver))
        and (wan.bus is None or fnmatchcase(interface.bus, wan.bus))
        and (wan.mac is None or any(fnmatchcase(mac, wan.mac) for mac in interface.macs))
    )


def _judged(link: Link, observed: Observed, taken: frozenset[Address], lan: Collection[int]) -> Link:
    """``taken`` are addresses of links before it, ``lan`` is the interface of the LAN."""
    interface = link.interface
    if interface is None:
        return replace(link, down=Reason.NO_INTERFACE)
    own = [each for each in observed.addresses if each.interface == interface.index and each.is_usable]
    free = [each for each in own if each.address not in taken]
    link = replace(link, addresses=tuple(each.address for each in own))
    if not interface.is_up:
        return replace(link, down=Reason.SWITCHED_OFF)
    if not interface.has_carrier:
        return replace(link, down=Reason.NO_CARRIER)
    if not free:
        return replace(link, down=Reason.SAME_ADDRESS if own else Reason.NO_ADDRESS)
    if _is_of_the_lan(interface, observed, lan):
        return replace(link, down=Reason.LAN_NETWORK)
    ways = tuple(_ways(link.wan, interface, free, observed.routes))
    return replace(link, ways=ways, down=None if ways else Reason.NO_GATEWAY)


def _is_of_the_lan(interface: Interface, observed: Observed, lan: Collection[int]) -> bool:
    """Whether the link's IPv4 network is the LAN's: whoever asks for a device gets one of either side.

    If its gateway has an address of this box on another side, nothing can be sent there at all.
    """
    networks = [(route.interface, route.destination) for route in observed.routes if _is_network(route)]
    own = [network for number, network in networks if number == interface.index]
    others = [network for number, network in networks if number in lan]
    elsewhere = {each.address for each in observed.addresses if each.interface != interface.index}
    here = [each for each in observed.routes if each.interface == interface.index and each.is_default]
    gateways = {route.gateway for route in here if route.table == MAIN and not is_our_route(route)}
    return any(one.overlaps(other) for one in own for other in others) or not gateways.isdisjoint(elsewhere)


def _is_network(route: Route) -> bool:
    """Whether it leads to more than one neighbour, by IPv4."""
    is_near = route.table == MAIN and route.gateway is None and not is_our_route(route)
    return is_near and route.destination.version == 4 and 0 < route.destination.prefixlen < 31


def _ways(
    wan: Wan, interface: Interface, addresses: Iterable[InterfaceAddress], routes: Iterable[Route]
) -> Iterator[Way]:
    here = [
        route
        for route in routes
        if route.table == MAIN and route.interface == interface.index and not is_our_route(route)
    ]
    # The older of two equal ones: one that comes must not take the subflows from one that works.
    # One of a delegated prefix comes last: it serves where the provider gives the link itself none.
    best = sorted(
        addresses,
        key=lambda each: (
            prefix_of(each.address) is not None,
            not each.is_lasting,
            each.address.is_private,
            each.created,
        ),
    )
    for version in (4, 6):
        own = tuple(each.address for each in best if each.address.version == version)
        of_version = [route for route in here if route.destination.version == version]
        defaults = [route for route in of_version if route.is_default]
        told = [each for each in wan.gateway if each.version == version]
        if not own or not (told or defaults):
            continue
        gateway = told[0] if told else min(defaults, key=lambda route: route.metric).gateway
        delegated = next(filter(None, map(prefix_of, own)), None)
        neighbourhood = (
            route
            for route in of_version
            if route.gateway is None and not route.is_default and route.destination != delegated
        )
        yield Way(version, own, gateway, tuple(neighbourhood), delegated)
