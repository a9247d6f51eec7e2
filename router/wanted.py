"""What the kernel shall have, by the links that are up. Pure.

For each address of a link a rule, ``from ADDRESS lookup TABLE``; in the link's table its neighbourhood and its default
route; in the table main a default route whose metric is the link's rank, since a session's first subflow has no
address yet by which a rule could choose; and an MPTCP endpoint for the best address of each IP version. One, since
subflows from a second address would share the link with the first and gain nothing.

A link that must not be used has none of these, and behind the default routes of the others main says "unreachable": its
DHCP client's own default route must not be used either.

A link whose probes get no answer keeps rules and table, for the probes and what is left of old connections, and loses
the default route in main and its endpoints.

With tunnels the endpoints, the rules for addresses and the routes to the gateway are the tunnels'; links' tables are
for what the tunnels send. While the gateway answers, main leads everything else into the tunnel that is for it; IPv6
as well, if the gateway has a prefix for the LAN (lan.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

from router.lan import LanAddress
from router.links import Link, Way
from router.observed import EVERYWHERE, Address, Endpoint, Flags, Limits, Mark, Observed, Route, Rule
from router.ours import (
    BEST,
    BY_TUNNEL,
    EVERYTHING_ELSE_TABLE,
    LINKS_END,
    LINKS_RULES,
    MAIN,
    METRICS,
    MOST_ENDPOINTS,
    OF_A_KIND,
    PROTOCOL,
    RULES,
    TABLE_METRIC,
    TABLES,
    TUNNEL_TABLES,
    TUNNELS_END,
    TUNNELS_RULES,
    is_our_route,
    is_our_rule,
)
from router.translation import Translation
from router.tunnels import Leg, Setup, Tunnel
from tributary.fwmarks import BY_LINK, RETURN
from tributary.settings.links import Use


@dataclass(frozen=True)
class Wanted:
    """Routes and endpoints in the order in which they are made; ``limits`` None leaves them as they are.

    ``tunnels`` are the interfaces that shall be there, ``setups`` what those of them get whose links are up. ``lan`` is
    the router's own address in its LAN, ``translation`` what becomes of the LAN's prefix at links.
    """

    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    limits: Limits | None = None
    tunnels: tuple[str, ...] = ()
    setups: tuple[Setup, ...] = ()
    lan: tuple[LanAddress, ...] = ()
    translation: Translation | None = None


@dataclass(frozen=True)
class Installed:
    """What the kernel has of ours; endpoints by their id, tunnels with what they were given last, None if unknown."""

    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    limits: Limits | None = None
    tunnels: Mapping[str, Setup | None] = field(default_factory=dict)
    lan: tuple[LanAddress, ...] = ()
    translation: Translation | None = None


def wanted(
    links: Sequence[Link],
    dead: Collection[str],
    foreign: Mapping[int, Endpoint],
    limits: Limits | None,
    leg: Leg | None = None,
    *,
    bypass: bool = False,
    shunned: Collection[str] = (),
    waiting: Collection[str] = (),
) -> Wanted:
    """For links as they rank, of which those named ``dead`` do not answer, beside other people's endpoints.

    ``bypass``: packets may be marked to leave by a link, or by the best one, which is none of those ``shunned``.
    ``waiting``: links that carry nothing now while another one works.
    """
    alive = [link for link in links if link.name not in dead]
    ways = [(link, way) for link in alive for way in link.ways]
    return Wanted(
        routes=(
            *(route for link in links for way in link.ways for route in _table(link, way)),
            *(_by_rank(BEST, link, way) for link, way in ways if (bypass or leg) and link.name not in shunned),
            *(_default(link, way) for link, way in ways if not (leg and leg.takes(way.version))),
            *(_routes_inside(leg, links, alive) if leg else ()),
            *_ends(links),
        ),
        rules=(
            *_rules(links),
            *(_rules_inside(leg, links) if leg else ()),
            *(_rules_of_marks(links, BY_TUNNEL, TUNNELS_RULES, TUNNELS_END, None) if leg else ()),
            *(_rules_of_marks(alive, BY_LINK, LINKS_RULES, LINKS_END, BEST) if bypass else ()),
            *(_rules_back() if bypass and leg and leg.everything_else else ()),
        ),
        endpoints=_endpoints_inside(leg, alive, foreign, waiting) if leg else _endpoints(alive, foreign, waiting),
        limits=limits,
    )


def _ends(links: Sequence[Link]) -> Iterator[Route]:
    """Behind all links that may be used, nothing: a DHCP client's route leads out by one that must not be."""
    for version in sorted({version for link in links for version in link.kept_from}):
        yield Route(MAIN, EVERYWHERE[version], None, None, METRICS[-1], PROTOCOL)


def _rules(links: Sequence[Link]) -> Iterator[Rule]:
    for link in links:
        for way in link.ways:
            for address in way.addresses:
                yield Rule(RULES, address, TABLES[link.place], PROTOCOL)


def _rules_of_marks(links: Sequence[Link], kind: int, each: int, end: int, otherwise: int | None) -> Iterator[Rule]:
    """For each link's mark its table, for the mark of none the best link's; and ``otherwise`` for the whole kind.

    A link that works without IPv6 refuses what by-passes to it: devices then use IPv4, by the link that was meant.
    """
    for version in (4, 6):
        yield Rule(each, Mark(version, kind), BEST, PROTOCOL)
        for link in links:
            is_of_ipv4_alone = kind == BY_LINK and version == 6 and [way.version for way in link.ways] == [4]
            table = None if is_of_ipv4_alone else TABLES[link.place]
            yield Rule(each, Mark(version, kind + link.place + 1), table, PROTOCOL)
        yield Rule(end, Mark(version, kind, OF_A_KIND), otherwise, PROTOCOL)


def _rules_back() -> Iterator[Rule]:
    """For answers to what the tunnel for everything else brought: another way would give them another address."""
    yield Rule(LINKS_RULES, Mark(4, RETURN), EVERYTHING_ELSE_TABLE, PROTOCOL)
    yield Rule(LINKS_END, Mark(4, RETURN), None, PROTOCOL)


def _standing(leg: Leg, links: Sequence[Link]) -> Iterator[tuple[Link, Tunnel, int]]:
    """Links that lead out, with their tunnels and the numbers of these interfaces."""
    for link in links:
        tunnel = leg.of(link)
        if link.ways and tunnel and tunnel.interface is not None:
            yield link, tunnel, tunnel.interface


def _rules_inside(leg: Leg, links: Sequence[Link]) -> Iterator[Rule]:
    if other := leg.everything_else:
        for address in other.addresses:
            yield Rule(RULES, address, EVERYTHING_ELSE_TABLE, PROTOCOL)
    for link, tunnel, _ in _standing(leg, links):
        yield Rule(RULES, tunnel.address, TUNNEL_TABLES[link.place], PROTOCOL)


def _routes_inside(leg: Leg, links: Sequence[Link], alive: Sequence[Link]) -> Iterator[Route]:
    for link, _, index in _standing(leg, links):
        yield Route(TUNNEL_TABLES[link.place], EVERYWHERE[4], None, index, TABLE_METRIC, PROTOCOL)
    for link, tunnel, index in _standing(leg, alive):
        yield Route(MAIN, IPv4Network(leg.inside), None, index, METRICS[link.rank], PROTOCOL, tunnel.address)
    # What is for the gateway inside never leaves outside of a tunnel, and whoever sends it need not wait to learn that.
    yield Route(MAIN, IPv4Network(leg.inside), None, None, METRICS[-1], PROTOCOL)
    other = leg.everything_else
    if other and other.interface is not None:
        for address in other.addresses:
            everywhere = EVERYWHERE[address.version]
            yield Route(EVERYTHING_ELSE_TABLE, everywhere, None, other.interface, TABLE_METRIC, PROTOCOL)
            if leg.answers:
                yield Route(MAIN, everywhere, None, other.interface, METRICS[0], PROTOCOL, address)


def _endpoints_inside(
    leg: Leg, alive: Sequence[Link], foreign: Mapping[int, Endpoint], waiting: Collection[str]
) -> tuple[Endpoint, ...]:
    covered = {endpoint.address for endpoint in foreign.values()}
    found = [
        Endpoint(tunnel.address, index, _flags(link, waiting))
        for link, tunnel, index in _standing(leg, alive)
        if tunnel.address not in covered
    ]
    return tuple(found[: max(0, MOST_ENDPOINTS - len(foreign))])


def _index(link: Link) -> int:
    assert link.interface is not None, "a link with a way out has an interface"
    return link.interface.index


def _table(link: Link, way: Way) -> Iterator[Route]:
    table, index = TABLES[link.place], _index(link)
    for destination in dict.fromkeys(route.destination for route in way.on_link):
        yield Route(table, destination, None, index, TABLE_METRIC, PROTOCOL)
    yield Route(table, EVERYWHERE[way.version], way.gateway, index, TABLE_METRIC, PROTOCOL)


def _default(link: Link, way: Way) -> Route:
    """In main. The preferred source is the endpoint's, so that the kernel knows a first subflow for the endpoint's."""
    return replace(_by_rank(MAIN, link, way), source=way.addresses[0])


def _by_rank(table: int, link: Link, way: Way) -> Route:
    return Route(table, EVERYWHERE[way.version], way.gateway, _index(link), METRICS[link.rank], PROTOCOL)


def _endpoints(
    links: Sequence[Link], foreign: Mapping[int, Endpoint], waiting: Collection[str]
) -> tuple[Endpoint, ...]:
    """One for each way out, by rank; every link's first before any link's second, if there is not room for all."""
    covered = {endpoint.address for endpoint in foreign.values()}
    rounds = sorted((number, link.rank, link, way) for link in links for number, way in enumerate(link.ways))
    found = [
        Endpoint(way.addresses[0], _index(link), _flags(link, waiting))
        for _, _, link, way in rounds
        if way.addresses[0] not in covered
    ]
    return tuple(found[: max(0, MOST_ENDPOINTS - len(foreign))])


def _flags(link: Link, waiting: Collection[str]) -> Flags:
    flags = Flags.SUBFLOW
    if link.wan.use is Use.BACKUP or link.name in waiting:
        flags |= Flags.BACKUP
    if link.wan.fullmesh:
        flags |= Flags.FULLMESH
    return flags


def foreign(observed: Observed, made: Mapping[int, Address]) -> dict[int, Endpoint]:
    """Endpoints that somebody else made; not those that the kernel makes by itself and gives up for a real one."""
    return {
        number: endpoint
        for number, endpoint in observed.endpoints.items()
        if made.get(number) != endpoint.address and not endpoint.flags & Flags.IMPLICIT
    }


def installed(observed: Observed, made: Mapping[int, Address], aims: Collection[Endpoint]) -> Installed:
    """What of ``observed`` is ours; ``made`` are ids and addresses of the endpoints that we made.

    An implicit endpoint stands in the way of one of ``aims`` with its address, and counts as ours.
    """
    in_the_way = {endpoint.address for endpoint in aims}
    return Installed(
        routes=frozenset(filter(is_our_route, observed.routes)),
        rules=frozenset(filter(is_our_rule, observed.rules)),
        endpoints={
            number: endpoint
            for number, endpoint in observed.endpoints.items()
            if made.get(number) == endpoint.address
            or (endpoint.flags & Flags.IMPLICIT and endpoint.address in in_the_way)
        },
        limits=observed.limits,
    )
