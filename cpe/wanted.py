"""What the kernel shall have, by the links that are up. Pure.

For each address of a link a rule, ``from ADDRESS lookup TABLE``; in the link's table its neighbourhood and its default
route; in the table main a default route whose metric is the link's rank, since a session's first subflow has no
address yet by which a rule could choose; and an MPTCP endpoint for the best address of each IP version. One, since
subflows from a second address would share the link with the first and gain nothing.

A link whose probes get no answer keeps rules and table, for the probes and what is left of old connections, and loses
the default route in main and its endpoints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cpe.links import Link, Way
from cpe.observed import EVERYWHERE, Address, Endpoint, Flags, Limits, Observed, Route, Rule
from cpe.ours import MAIN, METRICS, MOST_ENDPOINTS, PROTOCOL, RULES, TABLE_METRIC, TABLES, is_our_route, is_our_rule


@dataclass(frozen=True)
class Wanted:
    """Routes and endpoints in the order in which they are made; ``limits`` None leaves them as they are."""

    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    limits: Limits | None = None


@dataclass(frozen=True)
class Installed:
    """What the kernel has of ours; endpoints by their id."""

    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    limits: Limits | None = None


def wanted(
    links: Sequence[Link], dead: Collection[str], foreign: Mapping[int, Endpoint], limits: Limits | None
) -> Wanted:
    """For links as they rank, of which those named ``dead`` do not answer, beside other people's endpoints."""
    alive = [link for link in links if link.name not in dead]
    return Wanted(
        routes=(
            *(route for link in links for way in link.ways for route in _table(link, way)),
            *(_default(link, way) for link in alive for way in link.ways),
        ),
        rules=tuple(
            Rule(RULES, address, TABLES[link.place], PROTOCOL)
            for link in links
            for way in link.ways
            for address in way.addresses
        ),
        endpoints=_endpoints(alive, foreign),
        limits=limits,
    )


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
    return Route(
        MAIN, EVERYWHERE[way.version], way.gateway, _index(link), METRICS[link.rank], PROTOCOL, way.addresses[0]
    )


def _endpoints(links: Sequence[Link], foreign: Mapping[int, Endpoint]) -> tuple[Endpoint, ...]:
    """One for each way out, by rank; every link's first before any link's second, if there is not room for all."""
    covered = {endpoint.address for endpoint in foreign.values()}
    rounds = sorted((number, link.rank, link, way) for link in links for number, way in enumerate(link.ways))
    found = [_endpoint(link, way.addresses[0]) for _, _, link, way in rounds if way.addresses[0] not in covered]
    return tuple(found[: max(0, MOST_ENDPOINTS - len(foreign))])


def _endpoint(link: Link, address: Address) -> Endpoint:
    flags = Flags.SUBFLOW
    if link.wan.backup:
        flags |= Flags.BACKUP
    if link.wan.fullmesh:
        flags |= Flags.FULLMESH
    return Endpoint(address, _index(link), flags)


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
