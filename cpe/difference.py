"""From what is installed to what is wanted: the steps, and each as the command of ip(8) that does the same. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from cpe.observed import Endpoint, Flags, Limits, Route, Rule
from cpe.ours import MAIN, NUMBERS
from cpe.wanted import Installed, Wanted


@dataclass(frozen=True)
class Add:
    """Make a rule or a route."""

    what: Route | Rule


@dataclass(frozen=True)
class Remove:
    """Take a rule or a route away; that it is gone is no error."""

    what: Route | Rule


@dataclass(frozen=True)
class AddEndpoint:
    """Make an endpoint, to which sessions then join."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class RemoveEndpoint:
    """Take an endpoint away, and with it the subflows from its address; that it is gone is no error."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class SetLimits:
    """Set the path manager's limits."""

    limits: Limits


Step = Add | Remove | AddEndpoint | RemoveEndpoint | SetLimits


def difference(wanted: Wanted, installed: Installed, taken: Collection[int], last: int) -> tuple[Step, ...]:
    """The steps, in an order in which no endpoint stands without its rule, and no rule without its table's routes.

    ``taken`` are ids of all endpoints that are there, ``last`` is the id that was given out last.
    """
    stale = [each for each in installed.endpoints.items() if each[1] not in wanted.endpoints]
    new = [each for each in wanted.endpoints if each not in installed.endpoints.values()]
    limits = wanted.limits if wanted.limits != installed.limits else None
    return (
        *(RemoveEndpoint(number, endpoint) for number, endpoint in stale),
        *map(Remove, sorted(installed.rules - set(wanted.rules), key=str)),
        *map(Remove, sorted(installed.routes - set(wanted.routes), key=str)),
        *((SetLimits(limits),) if limits else ()),
        *(Add(route) for route in dict.fromkeys(wanted.routes) if route not in installed.routes),
        *(Add(rule) for rule in dict.fromkeys(wanted.rules) if rule not in installed.rules),
        *map(AddEndpoint, numbers(taken, last), new),
    )


def numbers(taken: Collection[int], last: int) -> Iterator[int]:
    """Ids that are free, beginning after ``last`` and then anew.

    The other side is told that an address is gone by its id (RFC 8684 section 3.4.2). If that comes late, by the slower
    path, it must not hit a subflow that has joined with the same id meanwhile.
    """
    order = sorted(NUMBERS, key=lambda number: (number <= last, number))
    return (number for number in order if number not in taken)


def command(step: Step, names: Mapping[int, str]) -> str:
    """The command of ip(8) that does the same; ``names`` are those of the interfaces by their index."""
    match step:
        case Add(what):
            return _on_routing("add", what, names)
        case Remove(what):
            return _on_routing("del", what, names)
        case AddEndpoint(number, endpoint):
            return f"ip mptcp endpoint add {_endpoint(number, endpoint, names)}"
        case RemoveEndpoint(number, endpoint):
            return f"ip mptcp endpoint delete id {number}"
        case SetLimits(limits):
            return f"ip mptcp limits set subflows {limits.subflows} add_addr_accepted {limits.accepted_addresses}"


def _on_routing(verb: str, what: Route | Rule, names: Mapping[int, str]) -> str:
    if isinstance(what, Route):
        return f"ip {_family(what.destination.version)}route {verb} {_route(what, names)}"
    return f"ip {_family(what.source.version)}rule {verb} {_rule(what)}"


def _family(version: int) -> str:
    return "-6 " if version == 6 else ""


def _route(route: Route, names: Mapping[int, str]) -> str:
    words = [
        "default" if route.is_default else str(route.destination),
        *([f"via {route.gateway}"] if route.gateway else []),
        f"dev {names.get(route.interface, f'if{route.interface}')}",
        *(["onlink"] if route.gateway else []),
        *([f"table {route.table}"] if route.table != MAIN else []),
        f"metric {route.metric}",
        f"proto {route.protocol}",
        *([f"src {route.source}"] if route.source else []),
    ]
    return " ".join(words)


def _rule(rule: Rule) -> str:
    return f"priority {rule.priority} from {rule.source} lookup {rule.table} protocol {rule.protocol}"


def _endpoint(number: int, endpoint: Endpoint, names: Mapping[int, str]) -> str:
    interface = names.get(endpoint.interface, f"if{endpoint.interface}")
    flags = " ".join((flag.name or "").lower() for flag in Flags if flag in endpoint.flags)
    return f"{endpoint.address} dev {interface} id {number} {flags}"
