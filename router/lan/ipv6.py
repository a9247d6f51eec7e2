"""IPv6 in the LAN: the router's own address there, and the routes of the prefixes of devices' addresses. Pure.

dnsmasq(8) advertises the address's prefix while the address exists, and deprecates it when it is gone. There is one at
a time, so that devices need not choose among several:

- that of the gateway in use, while it answers. The prefixes of all gateways always lead to the LAN: what devices
  still send from one is refused, and they have to receive that error.
- that which the provider of the best link has delegated. Those of all working links lead to the LAN, and packets from
  one leave by its link (RFC 8028 section 3): connections go on from an address that is no longer advertised. Those of
  links that are gone lead to the LAN for a while, so that their senders get an error.
- a private one, while a working link has a prefix into which it can be translated (npt.py).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Interface, IPv6Network

from router.identifiers import (
    LINK_TABLES,
    MAIN,
    MAIN_METRICS,
    PROTOCOL,
    REFUSED_TABLE,
    RULE_PRIORITY,
    TABLE_METRIC,
    is_owned_route,
)
from router.lan.npt import PrefixMapping, PrefixTranslation
from router.links.model import Link
from router.settings import RouterSettings
from tributary.kernel.state import EVERYWHERE, Interface, KernelState, OwnAddress, Route, Rule
from tributary.settings.lan_ipv6 import LanIpv6
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import Enrolment

_REMEMBERED = 7200.0
"""Seconds: no device keeps a prefix for longer that is not advertised any more (RFC 9096 section 4, RFC 4862)."""


@dataclass(frozen=True)
class Lan:
    """Working links by rank, and the gateway in use, if it answers; ``remembered`` prefixes may still be in use."""

    settings: RouterSettings
    observed: KernelState
    working: Sequence[Link] = ()
    answering: Enrolment | None = None
    remembered: Collection[IPv6Network] = ()

    @property
    def interface(self) -> Interface | None:
        """The LAN's interface, if it exists and is up; settings may have used an alternative name."""
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
    """What links have delegated lately, also before a restart."""

    def __init__(self) -> None:
        self._seen: dict[IPv6Network, float] = {}

    def updated(self, lan: Lan, now: float) -> list[IPv6Network]:
        """Those that devices may still have addresses of at ``now``, by the monotonic clock."""
        if lan.settings.lan_ipv6 is not LanIpv6.LINK:
            self._seen = {}
            return []
        number = lan.interface.index if lan.interface else None
        for route in lan.observed.routes:
            owned = is_owned_route(route) and route.table == MAIN and route.interface == number
            if owned and isinstance(route.destination, IPv6Network):
                self._seen.setdefault(route.destination, now)
        self._seen |= {prefix: now for _, prefix in lan.delegating}
        self._seen = {prefix: seen for prefix, seen in self._seen.items() if now - seen < _REMEMBERED}
        return list(self._seen)


def routes(lan: Lan) -> Iterator[Route]:
    """The route to the LAN for each prefix, also in the tables of links, which their packets look up."""
    if lan.interface is None:
        return
    number = lan.interface.index
    if lan.former:
        yield Route(REFUSED_TABLE, EVERYWHERE[6], None, number, TABLE_METRIC, PROTOCOL)
    for prefix in dict.fromkeys(_prefixes(lan)):
        yield Route(MAIN, prefix, None, number, MAIN_METRICS[-1], PROTOCOL)
        for link, _ in lan.delegating:
            yield Route(LINK_TABLES[link.slot], prefix, None, number, TABLE_METRIC, PROTOCOL)


def rules(lan: Lan) -> Iterator[Rule]:
    """Packets from a link's prefix leave by that link; providers drop all others (BCP 38)."""
    if lan.settings.lan_ipv6 is LanIpv6.LINK:
        for link, prefix in lan.delegating:
            yield Rule(RULE_PRIORITY, prefix, LINK_TABLES[link.slot], PROTOCOL)
        for prefix in lan.former:
            yield Rule(RULE_PRIORITY, prefix, REFUSED_TABLE, PROTOCOL)


def desired_addresses(lan: Lan) -> tuple[OwnAddress, ...]:
    """The address of the prefix that devices shall use now, if there is any."""
    prefix = _given_out(lan)
    return (OwnAddress(lan.interface.index, _address(prefix)),) if lan.interface and prefix else ()


def translation(lan: Lan) -> PrefixTranslation | None:
    """What the LAN's private prefix becomes on links."""
    settings = lan.settings
    if lan.interface is None or settings.lan_prefix is None:
        return None
    mappings = tuple(
        PrefixMapping(link.interface.name, link.slot, prefix)
        for link, prefix in lan.delegating
        if link.interface is not None
    )
    return PrefixTranslation(lan.interface.name, settings.lan_prefix, mappings)


def owned_addresses(lan: Lan) -> tuple[OwnAddress, ...]:
    """The owned addresses that exist; no other program has a reason to create them."""
    if lan.interface is None:
        return ()
    number = lan.interface.index
    owned = {each.prefix for each in lan.settings.enrolment}
    there = (each.address for each in lan.observed.addresses if each.interface == number)
    found = ((each, IPv6Network((each, addresses.LAN), strict=False)) for each in there if each.version == 6)
    return tuple(
        OwnAddress(number, _address(prefix))
        for each, prefix in found
        if each == addresses.lan_address(prefix) and (prefix in owned or _is_a_links(lan, each))
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
    # A backup or metered link does not get all of the LAN's IPv6 because it is the only one that has IPv6.
    best = [prefix for link, prefix in lan.delegating if link.wan.policy_rank == lan.working[0].wan.policy_rank]
    return (settings.lan_prefix or best[0]) if best else None


def _address(prefix: IPv6Network) -> IPv6Interface:
    return IPv6Interface((addresses.lan_address(prefix), prefix.prefixlen))
