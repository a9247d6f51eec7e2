"""The desired state of the kernel, by the links that are up. Pure.

Each address of a link has a rule, ``from ADDRESS lookup TABLE``. The link's table has its connected networks and its
default route. The table main has a default route whose metric is the link's rank, since the first subflow of a session
has no address yet by which a rule could choose. The best address of each IP version has an MPTCP endpoint; subflows
from a second address would share the link with the first and gain nothing.

A link that must not be used has none of these. Behind the default routes of the others main has an unreachable route,
so that the default route of that link's DHCP client is not used either.

A link whose probes get no answer keeps its rules and its table, for the probes and for old connections, and loses its
default route in main and its endpoints.

With tunnels the endpoints, the rules for addresses and the routes to the gateway are the tunnels'; the links' tables
are for the tunnels' packets. The tunnel of the link that begins sessions may have a second route to the gateway, before
those by rank (links/quickest.py). While the gateway answers, main sends everything else into the default tunnel; IPv6
too, if the gateway has a prefix for the LAN (lan/ipv6.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

from router.identifiers import (
    BEST_LINK_TABLE,
    BY_TUNNEL,
    DEFAULT_TUNNEL_TABLE,
    FIRST_METRIC,
    KIND_MASK,
    LINK_TABLES,
    LINKS_END,
    LINKS_RULES,
    MAIN,
    MAIN_METRICS,
    MAX_ENDPOINTS,
    PROTOCOL,
    RULE_PRIORITY,
    TABLE_METRIC,
    TUNNEL_TABLES,
    TUNNELS_END,
    TUNNELS_RULES,
    is_owned_route,
    is_owned_rule,
)
from router.lan.npt import PrefixTranslation
from router.links.model import Link, NextHop
from router.tunnels.model import GatewayTunnels, Tunnel, TunnelConfig
from tributary.fwmarks import BY_LINK, RETURN
from tributary.kernel.state import (
    EVERYWHERE,
    Address,
    Endpoint,
    Flags,
    KernelState,
    Limits,
    Mark,
    OwnAddress,
    Route,
    Rule,
)
from tributary.settings.links import Use


@dataclass(frozen=True)
class DesiredState:
    """Routes and endpoints are in the order of their creation. With ``limits`` None the limits stay as they are.

    ``tunnels`` are the interfaces that shall exist, ``tunnel_configs`` the configuration of those whose links are up.
    ``lan`` is the router's own address in its LAN.
    """

    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    limits: Limits | None = None
    tunnels: tuple[str, ...] = ()
    tunnel_configs: tuple[TunnelConfig, ...] = ()
    lan: tuple[OwnAddress, ...] = ()
    translation: PrefixTranslation | None = None


@dataclass(frozen=True)
class OwnedState:
    """What this daemon owns in the kernel: endpoints by id, tunnels with their last configuration (None if unknown)."""

    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    limits: Limits | None = None
    tunnels: Mapping[str, TunnelConfig | None] = field(default_factory=dict)
    lan: tuple[OwnAddress, ...] = ()
    translation: PrefixTranslation | None = None


def desired_state(
    links: Sequence[Link],
    foreign: Mapping[int, Endpoint],
    limits: Limits | None,
    gateway_tunnels: GatewayTunnels | None,
    beginning: str | None,
    *,
    bypass: bool,
) -> DesiredState:
    """``links`` in the order of their rank. ``foreign`` are endpoints of other programs.

    ``beginning``: the link that begins sessions through the tunnels, before those of a better rank. ``bypass``: packets
    may be marked to leave by a link, or by the best one that is not suspect.
    """
    alive = [link for link in links if not link.is_taken_out]
    next_hops = [(link, next_hop) for link in alive for next_hop in link.next_hops]
    return DesiredState(
        routes=(
            *(route for link in links for next_hop in link.next_hops for route in _table(link, next_hop)),
            *(
                _by_rank(BEST_LINK_TABLE, link, next_hop)
                for link, next_hop in next_hops
                if (bypass or gateway_tunnels) and not link.is_suspect
            ),
            *(
                # The endpoint's address is the preferred source: a first subflow is attributed to the endpoint.
                replace(_by_rank(MAIN, link, next_hop), source=next_hop.addresses[0])
                for link, next_hop in next_hops
                if not (gateway_tunnels and gateway_tunnels.takes(next_hop.version))
            ),
            *(_routes_inside(gateway_tunnels, links, alive, beginning) if gateway_tunnels else ()),
            *_ends(links),
        ),
        rules=(
            *_rules(links),
            *(_rules_inside(gateway_tunnels, links) if gateway_tunnels else ()),
            *(_rules_of_marks(links, BY_TUNNEL, TUNNELS_RULES, TUNNELS_END, None) if gateway_tunnels else ()),
            *(_rules_of_marks(alive, BY_LINK, LINKS_RULES, LINKS_END, BEST_LINK_TABLE) if bypass else ()),
            *(_rules_back() if bypass and gateway_tunnels and gateway_tunnels.default_tunnel else ()),
        ),
        endpoints=_endpoints(gateway_tunnels, alive, foreign),
        limits=limits,
    )


def _ends(links: Sequence[Link]) -> Iterator[Route]:
    """An unreachable default route behind all links: a DHCP client's may lead out by a link that must not be used."""
    for version in sorted({version for link in links for version in link.blocked_versions}):
        yield Route(MAIN, EVERYWHERE[version], None, None, MAIN_METRICS[-1], PROTOCOL)


def _rules(links: Sequence[Link]) -> Iterator[Rule]:
    for link in links:
        for next_hop in link.next_hops:
            for address in next_hop.addresses:
                yield Rule(RULE_PRIORITY, address, LINK_TABLES[link.slot], PROTOCOL)


def _rules_of_marks(links: Sequence[Link], kind: int, each: int, end: int, otherwise: int | None) -> Iterator[Rule]:
    """A rule for each link's mark, for the mark of the best link, and ``otherwise`` for all other marks of the kind.

    A link without IPv6 refuses bypassed IPv6: devices then use IPv4, by the link that was meant.
    """
    for version in (4, 6):
        yield Rule(each, Mark(version, kind), BEST_LINK_TABLE, PROTOCOL)
        for link in links:
            is_of_ipv4_alone = (
                kind == BY_LINK and version == 6 and [next_hop.version for next_hop in link.next_hops] == [4]
            )
            table = None if is_of_ipv4_alone else LINK_TABLES[link.slot]
            yield Rule(each, Mark(version, kind + link.slot + 1), table, PROTOCOL)
        yield Rule(end, Mark(version, kind, KIND_MASK), otherwise, PROTOCOL)


def _rules_back() -> Iterator[Rule]:
    """For answers to what came in through the default tunnel: elsewhere they would have another source address."""
    yield Rule(LINKS_RULES, Mark(4, RETURN), DEFAULT_TUNNEL_TABLE, PROTOCOL)
    yield Rule(LINKS_END, Mark(4, RETURN), None, PROTOCOL)


def _existing(gateway_tunnels: GatewayTunnels, links: Sequence[Link]) -> Iterator[tuple[Link, Tunnel]]:
    """Links that lead out, with their tunnels."""
    for link in links:
        if link.next_hops and (tunnel := gateway_tunnels.of(link)):
            yield link, tunnel


def _rules_inside(gateway_tunnels: GatewayTunnels, links: Sequence[Link]) -> Iterator[Rule]:
    if other := gateway_tunnels.default_tunnel:
        for address in other.addresses:
            yield Rule(RULE_PRIORITY, address, DEFAULT_TUNNEL_TABLE, PROTOCOL)
    for link, tunnel in _existing(gateway_tunnels, links):
        yield Rule(RULE_PRIORITY, tunnel.address, TUNNEL_TABLES[link.slot], PROTOCOL)


def _routes_inside(
    gateway_tunnels: GatewayTunnels, links: Sequence[Link], alive: Sequence[Link], beginning: str | None
) -> Iterator[Route]:
    for link, tunnel in _existing(gateway_tunnels, links):
        yield Route(TUNNEL_TABLES[link.slot], EVERYWHERE[4], None, tunnel.interface, TABLE_METRIC, PROTOCOL)
    inside = IPv4Network(gateway_tunnels.inside)
    for number, (link, tunnel) in enumerate(_existing(gateway_tunnels, alive)):
        yield Route(MAIN, inside, None, tunnel.interface, MAIN_METRICS[link.rank], PROTOCOL, tunnel.address)
        if number and link.name == beginning:
            # A second one, so that there is a route all the time when another link begins sessions.
            yield Route(MAIN, inside, None, tunnel.interface, FIRST_METRIC, PROTOCOL, tunnel.address)
    # Packets to the gateway's inside address never leave outside of a tunnel; their sender gets an error at once.
    yield Route(MAIN, inside, None, None, MAIN_METRICS[-1], PROTOCOL)
    if other := gateway_tunnels.default_tunnel:
        for address in other.addresses:
            everywhere = EVERYWHERE[address.version]
            yield Route(DEFAULT_TUNNEL_TABLE, everywhere, None, other.interface, TABLE_METRIC, PROTOCOL)
            if gateway_tunnels.answers:
                yield Route(MAIN, everywhere, None, other.interface, MAIN_METRICS[0], PROTOCOL, address)


def _index(link: Link) -> int:
    assert link.interface is not None, "a link with a way out has an interface"
    return link.interface.index


def _table(link: Link, next_hop: NextHop) -> Iterator[Route]:
    table, index = LINK_TABLES[link.slot], _index(link)
    for destination in dict.fromkeys(route.destination for route in next_hop.on_link):
        yield Route(table, destination, None, index, TABLE_METRIC, PROTOCOL)
    yield Route(table, EVERYWHERE[next_hop.version], next_hop.gateway, index, TABLE_METRIC, PROTOCOL)


def _by_rank(table: int, link: Link, next_hop: NextHop) -> Route:
    return Route(table, EVERYWHERE[next_hop.version], next_hop.gateway, _index(link), MAIN_METRICS[link.rank], PROTOCOL)


def _endpoints(
    gateway_tunnels: GatewayTunnels | None, links: Sequence[Link], foreign: Mapping[int, Endpoint]
) -> tuple[Endpoint, ...]:
    """One for each tunnel of a link, or without tunnels for each next hop, by rank.

    If not all fit, each link's first comes before any link's second.
    """
    if gateway_tunnels:
        inside = _existing(gateway_tunnels, links)
        found = [Endpoint(tunnel.address, tunnel.interface, _flags(link)) for link, tunnel in inside]
    else:
        rounds = sorted((number, link.rank, link, hop) for link in links for number, hop in enumerate(link.next_hops))
        found = [Endpoint(hop.addresses[0], _index(link), _flags(link)) for _, _, link, hop in rounds]
    covered = {endpoint.address for endpoint in foreign.values()}
    free = [endpoint for endpoint in found if endpoint.address not in covered]
    return tuple(free[: max(0, MAX_ENDPOINTS - len(foreign))])


def _flags(link: Link) -> Flags:
    flags = Flags.SUBFLOW
    if link.wan.use is Use.BACKUP or link.is_standby:
        flags |= Flags.BACKUP
    if link.wan.fullmesh:
        flags |= Flags.FULLMESH
    return flags


def unmanaged_endpoints(observed: KernelState, made: Mapping[int, Address]) -> dict[int, Endpoint]:
    """Endpoints of other programs, without those that the kernel creates implicitly."""
    return {
        number: endpoint
        for number, endpoint in observed.endpoints.items()
        if made.get(number) != endpoint.address and not endpoint.flags & Flags.IMPLICIT
    }


def owned_state(observed: KernelState, made: Mapping[int, Address], desired: Collection[Endpoint]) -> OwnedState:
    """``made`` are ids and addresses of the endpoints that this daemon created.

    An implicit endpoint with the address of one of ``desired`` blocks it, and counts as owned.
    """
    in_the_way = {endpoint.address for endpoint in desired}
    return OwnedState(
        routes=frozenset(filter(is_owned_route, observed.routes)),
        rules=frozenset(filter(is_owned_rule, observed.rules)),
        endpoints={
            number: endpoint
            for number, endpoint in observed.endpoints.items()
            if made.get(number) == endpoint.address
            or (endpoint.flags & Flags.IMPLICIT and endpoint.address in in_the_way)
        },
        limits=observed.limits,
    )
