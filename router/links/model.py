"""Which interface is which link, its next hops, and if it has none, why. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import IPv6Network

from router.identifiers import IFB_PREFIX, MAIN, is_owned_route
from router.settings import RouterSettings, Wan
from tributary.kernel.state import Address, Interface, InterfaceAddress, KernelState, Route
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
    CAPTIVE_PORTAL = "a login page is in the way"


@dataclass(frozen=True)
class NextHop:
    """How a link leads out for one IP version: its addresses, the best first, and its gateway.

    Without a gateway everything is on the link (point-to-point). ``on_link`` are the connected routes in main.
    ``delegated`` is a prefix of the provider's for the LAN.
    """

    version: int
    addresses: tuple[Address, ...]
    gateway: Address | None
    on_link: tuple[Route, ...]
    delegated: IPv6Network | None = None


@dataclass(frozen=True)
class Link:
    """One [wan.NAME]: ``slot`` is its position in the settings file, ``rank`` the order of preference, both from 0.

    ``down`` says why it has no next hop: a Reason, or what its settings say (policy.py). The rest is what the
    reconciler adds: ``is_taken_out``, its probes get no answer; ``is_suspect``, another link is better now
    (health.py); ``is_standby``, it is not needed now (overflow.py); ``reason``, why it is not used, None if it is;
    ``since`` when that is so, by the monotonic clock.
    """

    name: str
    wan: Wan
    slot: int
    rank: int
    interface: Interface | None = None
    addresses: tuple[Address, ...] = ()
    next_hops: tuple[NextHop, ...] = ()
    down: str | None = None
    blocked_versions: tuple[int, ...] = ()
    """The IP versions that it would have, and that its settings forbid."""
    is_taken_out: bool = False
    is_suspect: bool = False
    is_standby: bool = False
    reason: str | None = None
    since: float = 0.0

    def path(self, version: int) -> tuple[str, Address] | None:
        """The interface, and the best source address, by which it leads out for one IP version."""
        addresses = (next_hop.addresses[0] for next_hop in self.next_hops if next_hop.version == version)
        return next(((self.interface.name, address) for address in addresses if self.interface), None)

    @property
    def works(self) -> bool:
        """Whether it leads out, and no probe says otherwise."""
        return bool(self.next_hops) and not (self.is_taken_out or self.is_suspect)

    @property
    def delegated(self) -> IPv6Network | None:
        """The prefix for the LAN, while the link leads out."""
        return next((next_hop.delegated for next_hop in self.next_hops if next_hop.delegated), None)


def links(settings: RouterSettings, observed: KernelState) -> tuple[Link, ...]:
    """All links by rank."""
    # Only what others have in main tells of links.
    routes = tuple(route for route in observed.routes if route.table == MAIN and not is_owned_route(route))
    observed = replace(observed, routes=routes)
    chosen = _interfaces(settings, observed.interfaces)
    lan = {each.index for each in observed.interfaces if settings.lan in each.names}
    found: list[Link] = []
    for rank, name in enumerate(settings.by_rank):
        wan, slot = settings.wan[name], list(settings.wan).index(name)
        link = Link(name, wan, slot, rank, chosen.get(name))
        taken = frozenset(address for other in found for next_hop in other.next_hops for address in next_hop.addresses)
        found.append(_evaluate(link, observed, taken, lan))
    return tuple(found)


_SPECIAL = frozenset('"\\*')
"""Legal in a kernel's interface name, but not in a quoted string of nft, or a wildcard there."""


def _interfaces(settings: RouterSettings, interfaces: Sequence[Interface]) -> dict[str, Interface]:
    """An interface for each link: the oldest match that no earlier link in the file has."""
    own = (*settings.tunnel_names, settings.failback_name) if settings.enrolment else ()
    free = [
        each
        for each in interfaces
        if not (each.is_loopback or each.is_enslaved or each.name.startswith(IFB_PREFIX) or each.name in own)
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


def fits(wan: Wan, interface: Interface) -> bool:
    """Whether ``interface`` matches every key that ``wan`` has."""
    return (
        (wan.interface is None or any(fnmatchcase(name, wan.interface) for name in interface.names))
        and (wan.driver is None or fnmatchcase(interface.driver, wan.driver))
        and (wan.bus is None or fnmatchcase(interface.bus, wan.bus))
        and (wan.mac is None or any(fnmatchcase(mac, wan.mac) for mac in interface.macs))
    )


def _evaluate(link: Link, observed: KernelState, taken: frozenset[Address], lan: Collection[int]) -> Link:
    """``taken`` are the addresses of better links, ``lan`` the indexes of the LAN's interface."""
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
    next_hops = tuple(_next_hops(link.wan, interface, free, observed.routes))
    return replace(link, next_hops=next_hops, down=None if next_hops else Reason.NO_GATEWAY)


def _is_of_the_lan(interface: Interface, observed: KernelState, lan: Collection[int]) -> bool:
    """Whether the link's IPv4 network is the LAN's: a device's address would then exist on both sides.

    If its gateway has an address of this box on another interface, nothing can be sent there at all.
    """
    networks = [(route.interface, route.destination) for route in observed.routes if _is_network(route)]
    own = [network for number, network in networks if number == interface.index]
    others = [network for number, network in networks if number in lan]
    # A link-local address of IPv6 is of its interface alone (RFC 4007): many routers are fe80::1.
    elsewhere = {
        each.address
        for each in observed.addresses
        if each.interface != interface.index and not (each.address.version == 6 and each.address.is_link_local)
    }
    gateways = {each.gateway for each in observed.routes if each.interface == interface.index and each.is_default}
    return any(one.overlaps(other) for one in own for other in others) or not gateways.isdisjoint(elsewhere)


def _is_network(route: Route) -> bool:
    """Whether it is a connected IPv4 route to more than one neighbour."""
    return route.gateway is None and route.destination.version == 4 and 0 < route.destination.prefixlen < 31


def _next_hops(
    wan: Wan, interface: Interface, addresses: Iterable[InterfaceAddress], routes: Iterable[Route]
) -> Iterator[NextHop]:
    here = [route for route in routes if route.interface == interface.index]
    # The older of two equal addresses: a new one must not take the subflows from one that works.
    # An address of a delegated prefix comes last: it is for links without an address of their own.
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
        configured = [each for each in wan.gateway if each.version == version]
        if not own or not (configured or defaults):
            continue
        gateway = configured[0] if configured else min(defaults, key=lambda route: route.metric).gateway
        delegated = next(filter(None, map(prefix_of, own)), None)
        neighbourhood = (
            route
            for route in of_version
            if route.gateway is None and not route.is_default and route.destination != delegated
        )
        yield NextHop(version, own, gateway, tuple(neighbourhood), delegated)
