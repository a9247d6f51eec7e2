"""IPv6 in the LAN: the router's own address there, and the ways of the prefixes that devices have addresses of. Pure.

dnsmasq(8) tells devices of the address's prefix as long as it stands, and that the prefix is not to be used any more
when it is gone. There is one at a time, so that devices need not choose among several:

- that of the gateway in use, while it answers. The prefixes of all gateways lead to the LAN all the time: what devices
  still send from one is refused, and they have to hear of that.
- that which the provider of the best link has delegated. Those of all links that work lead to the LAN, and what has an
  address of one leaves by its link (RFC 8028 section 3): connections go on by an address that is no longer given out.
  Those of links that are gone lead to the LAN for a while, so that who sends from there is told.
- a private one, while a link that works has a prefix into which it can be translated (translation.py).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Interface, IPv6Network

from router.links import Link
from router.observed import EVERYWHERE, Interface, Observed, Route, Rule
from router.ours import MAIN, METRICS, PROTOCOL, REFUSED, RULES, TABLE_METRIC, TABLES, is_our_route
from router.settings import RouterSettings
from router.translation import Side, Translation
from tributary.settings.lan_ipv6 import LanIpv6
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import Enrolment

_REMEMBERED = 7200.0
"""Seconds: for longer no device keeps a prefix that it is not told of any more (RFC 9096 section 4, RFC 4862)."""


@dataclass(frozen=True)
class LanAddress:
    """An address of the router's, and the number of the interface."""

    interface: int
    address: IPv6Interface


@dataclass(frozen=True)
class Lan:
    """What is there for the LAN: links that work, as they rank, and the gateway in use, if it answers.

    ``remembered`` are links' prefixes that devices may still have.
    """

    settings: RouterSettings
    observed: Observed
    working: Sequence[Link] = ()
    answering: Enrolment | None = None
    remembered: Collection[IPv6Network] = ()

    @property
    def interface(self) -> int | None:
        """The number of the LAN's interface, if it is there and switched on."""
        return self._there.index if self._there else None

    @property
    def name(self) -> str | None:
        """The name of that interface; settings may have called it by another."""
        return self._there.name if self._there else None

    @property
    def _there(self) -> Interface | None:
        there = self.observed.interfaces
        return next((each for each in there if self.settings.lan in each.names and each.is_up), None)

    @property
    def delegating(self) -> list[tuple[Link, IPv6Network]]:
        """The links whose prefixes are used, with these; of two links with one prefix the better."""
        if self.settings.lan_ipv6 not in (LanIpv6.LINK, LanIpv6.TRANSLATED):
            return []
        found: dict[IPv6Network, Link] = {}
        for link in self.working:
            if link.delegated:
                found.setdefault(link.delegated, link)
        return [(link, prefix) for prefix, link in found.items()]

    @property
    def former(self) -> list[IPv6Network]:
        """Prefixes that lead to no link any more."""
        now = {prefix for _, prefix in self.delegating}
        return [prefix for prefix in self.remembered if prefix not in now]


class Prefixes:
    """What links have delegated of late, also to a daemon before this one."""

    def __init__(self) -> None:
        self._seen: dict[IPv6Network, float] = {}

    @property
    def remembered(self) -> list[IPv6Network]:
        """Those that devices may still have addresses of."""
        return list(self._seen)

    def keep(self, lan: Lan, wall: float) -> None:
        """Learn what there is at ``wall``, in seconds since 1970, and forget what is too old."""
        if lan.settings.lan_ipv6 is not LanIpv6.LINK:
            self._seen = {}
            return
        for route in lan.observed.routes:
            ours = is_our_route(route) and route.table == MAIN and route.interface == lan.interface
            if ours and isinstance(route.destination, IPv6Network):
                self._seen.setdefault(route.destination, wall)
        self._seen |= {prefix: wall for _, prefix in lan.delegating}
        self._seen = {prefix: seen for prefix, seen in self._seen.items() if abs(wall - seen) < _REMEMBERED}


def routes(lan: Lan) -> Iterator[Route]:
    """The way to the LAN for each prefix, also from the tables of links, in which its packets look for theirs."""
    number = lan.interface
    if number is None:
        return
    if lan.former:
        yield Route(REFUSED, EVERYWHERE[6], None, number, TABLE_METRIC, PROTOCOL)
    for prefix in dict.fromkeys(_prefixes(lan)):
        yield Route(MAIN, prefix, None, number, METRICS[-1], PROTOCOL)
        for link, _ in lan.delegating:
            yield Route(TABLES[link.place], prefix, None, number, TABLE_METRIC, PROTOCOL)


def rules(lan: Lan) -> Iterator[Rule]:
    """What has an address of a link's prefix leaves by that link; providers drop all else (BCP 38)."""
    if lan.settings.lan_ipv6 is LanIpv6.LINK:
        for link, prefix in lan.delegating:
            yield Rule(RULES, prefix, TABLES[link.place], PROTOCOL)
        for prefix in lan.former:
            yield Rule(RULES, prefix, REFUSED, PROTOCOL)


def wanted(lan: Lan) -> tuple[LanAddress, ...]:
    """The address of the prefix that devices are to use now, if there is any."""
    number, prefix = lan.interface, _given_out(lan)
    if number is None or prefix is None:
        return ()
    return (LanAddress(number, _address(prefix)),)


def translation(lan: Lan) -> Translation | None:
    """What the LAN's private prefix becomes at links."""
    settings = lan.settings
    if lan.name is None or settings.lan_prefix is None:
        return None
    sides = tuple(
        Side(link.interface.name, link.place, prefix) for link, prefix in lan.delegating if link.interface is not None
    )
    return Translation(lan.name, settings.lan_prefix, sides)


def standing(lan: Lan) -> tuple[LanAddress, ...]:
    """Those of ours that are there; nobody else has a reason to make them."""
    number = lan.interface
    ours = {each.prefix for each in lan.settings.enrolment}
    there = (each.address for each in lan.observed.addresses if each.interface == number)
    found = ((each, IPv6Network((each, addresses.LAN), strict=False)) for each in there if each.version == 6)
    return tuple(
        LanAddress(number, _address(prefix))
        for each, prefix in found
        if number is not None and each == addresses.lan_address(prefix) and (prefix in ours or _is_a_links(lan, each))
    )


def _is_a_links(lan: Lan, address: IPv6Address) -> bool:
    """Whether it is of a link's prefix, which may be gone by now, or the private one."""
    if lan.settings.lan_ipv6 is LanIpv6.GATEWAY:
        return False
    return address in addresses.GLOBAL or address in addresses.PRIVATE


def _prefixes(lan: Lan) -> Iterator[IPv6Network]:
    settings = lan.settings
    if settings.lan_ipv6 is LanIpv6.GATEWAY:
        yield from filter(None, (enrolment.prefix for enrolment in settings.enrolment))
    elif settings.lan_prefix:
        yield settings.lan_prefix
    else:
        yield from (prefix for _, prefix in lan.delegating)
        yield from lan.former


def _given_out(lan: Lan) -> IPv6Network | None:
    settings = lan.settings
    if settings.lan_ipv6 is LanIpv6.GATEWAY:
        return lan.answering.prefix if lan.answering else None
    # A link that is kept for emergencies, or costs by the byte, does not get all of the LAN's IPv6 for having some.
    best = [prefix for link, prefix in lan.delegating if link.wan.policy_rank == lan.working[0].wan.policy_rank]
    return (settings.lan_prefix or best[0]) if best else None


def _address(prefix: IPv6Network) -> IPv6Interface:
    return IPv6Interface((addresses.lan_address(prefix), prefix.prefixlen))
