"""Compares owned and desired state: the operations, and each as the command of ip(8) that does the same. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from router.identifiers import ENDPOINT_IDS, MAIN
from router.lan.npt import TABLE, PrefixTranslation
from router.state.desired import DesiredState, OwnedState
from router.tunnels.model import TunnelConfig
from tributary.kernel.state import EVERY_BIT, Address, Endpoint, Flags, Limits, Mark, Network, OwnAddress, Route, Rule


@dataclass(frozen=True)
class NumberedEndpoint:
    """An endpoint with its id."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class TunnelInterface:
    """A WireGuard interface, as yet without configuration."""

    name: str


What = Route | Rule | OwnAddress | NumberedEndpoint | Limits | TunnelInterface | TunnelConfig | PrefixTranslation
"""A translation is the nft table that translates the LAN's prefix."""


@dataclass(frozen=True)
class Add:
    """Creates it. With an endpoint, sessions join from its address."""

    what: What


@dataclass(frozen=True)
class Remove:
    """Removes it; it is no error if it does not exist. With an endpoint go the subflows from its address."""

    what: What


@dataclass(frozen=True)
class Change:
    """Sets limits, a tunnel's configuration, or the translation; or sets or clears an endpoint's backup flag.

    The endpoint's subflows stay, and send MP_PRIO (RFC 8684 section 3.3.8).
    """

    what: What


Operation = Add | Remove | Change


def needs_record(operation: Operation) -> bool:
    """Whether a killed daemon would leave what it does not know, unless that was saved before (owned.py)."""
    if isinstance(operation, Add):
        return isinstance(operation.what, NumberedEndpoint | TunnelInterface | OwnAddress)
    return isinstance(operation, Change) and isinstance(operation.what, Limits | PrefixTranslation)


def diff(desired: DesiredState, owned: OwnedState, taken: Collection[int], last: int) -> tuple[Operation, ...]:
    """Orders the operations so that no endpoint exists without its rule, and no rule without its table's routes.

    ``taken`` are the ids of all existing endpoints, ``last`` is the id assigned last.
    """
    changed = {
        number: each
        for number, before in owned.endpoints.items()
        for each in desired.endpoints
        if replace(each, flags=each.flags ^ Flags.BACKUP) == before
    }
    existing = {**owned.endpoints, **changed}
    stale = [each for each in existing.items() if each[1] not in desired.endpoints]
    numbers = free_ids(taken, last)
    new = [each for each in desired.endpoints if each not in existing.values()]
    limits = desired.limits if desired.limits != owned.limits else None
    tunnel_configs = [each for each in desired.tunnel_configs if owned.tunnels.get(each.name) != each]
    inside = {address for each in tunnel_configs for address in each.addresses}
    routes = [route for route in dict.fromkeys(desired.routes) if route not in owned.routes]
    return (
        *(Remove(NumberedEndpoint(*each)) for each in stale),
        *(Change(NumberedEndpoint(*each)) for each in changed.items()),
        *(Remove(each) for each in owned.lan if each not in desired.lan),
        *map(Remove, sorted(owned.rules - set(desired.rules), key=str)),
        *map(Remove, sorted(owned.routes - set(desired.routes), key=str)),
        *(Remove(TunnelInterface(name)) for name in owned.tunnels if name not in desired.tunnels),
        *((Change(limits),) if limits else ()),
        *(Add(TunnelInterface(name)) for name in desired.tunnels if name not in owned.tunnels),
        *(Add(route) for route in routes if route.source not in inside),
        *(Add(rule) for rule in dict.fromkeys(desired.rules) if rule not in owned.rules),
        # After the rules: a tunnel's first packet must leave by its own link.
        *map(Change, tunnel_configs),
        # Not before: what a session sends first would go to the gateway that the tunnel had.
        *(Add(route) for route in routes if route.source in inside),
        *_translate(desired.translation, owned.translation),
        *(Add(each) for each in desired.lan if each not in owned.lan),
        *(Add(NumberedEndpoint(next(numbers), each)) for each in new),
    )


def _translate(desired: PrefixTranslation | None, owned: PrefixTranslation | None) -> Iterator[Operation]:
    if desired and desired != owned:
        yield Change(desired)
    elif owned and not desired:
        yield Remove(owned)


def free_ids(taken: Collection[int], last: int) -> Iterator[int]:
    """Free ids from the one after ``last``, then from the start of the range.

    The peer learns by id that an address is gone (RFC 8684 section 3.4.2). If that message arrives late, by the slower
    path, it must not hit a subflow that has joined with the same id meanwhile.
    """
    order = sorted(ENDPOINT_IDS, key=lambda number: (number <= last, number))
    return (number for number in order if number not in taken)


def command(operation: Operation, names: Mapping[int, str]) -> str:
    """The command of ip(8) that does the same; ``names`` are the interfaces' names by index."""
    match operation:
        case Remove(NumberedEndpoint(number, _)):
            return f"ip mptcp endpoint delete id {number}"
        case Change(NumberedEndpoint(number, endpoint)):
            return f"ip mptcp endpoint change id {number} {'' if Flags.BACKUP in endpoint.flags else 'no'}backup"
        case Remove(PrefixTranslation()):
            return f"nft delete table inet {TABLE}"
    match operation.what:
        case Route() | Rule() | OwnAddress() as what:
            return _on_routing("add" if isinstance(operation, Add) else "del", what, names)
        case NumberedEndpoint(number, endpoint):
            return f"ip mptcp endpoint add {_endpoint(number, endpoint, names)}"
        case Limits(subflows, accepted_addresses):
            return f"ip mptcp limits set subflows {subflows} add_addr_accepted {accepted_addresses}"
        case TunnelInterface(name):
            is_gone = isinstance(operation, Remove)
            return f"ip link delete dev {name}" if is_gone else f"ip link add {name} type wireguard"
        case TunnelConfig() as config:
            return _setup(config)
        case PrefixTranslation() as translation:
            return _translating(translation)


def _translating(translation: PrefixTranslation) -> str:
    """A summary of the script for nft(8)."""
    mappings = ", ".join(f"{each.prefix} by {each.interface}" for each in translation.mappings) or "nothing"
    return (
        f"nft --file - (table inet {TABLE}: {translation.lan_prefix} of {translation.lan_interface} becomes {mappings})"
    )


def _name(interface: int, names: Mapping[int, str]) -> str:
    return names.get(interface, f"if{interface}")


def _setup(config: TunnelConfig) -> str:
    """The commands in one line, without keys."""
    addresses = "".join(f" ip address replace {address} dev {config.name};" for address in config.inside)
    peers = " ".join(f"endpoint {peer.endpoint or '(unknown yet)'}" for peer in config.interface.peers)
    return (
        f"wg set {config.name} fwmark {config.interface.mark:#x} peer ... {peers};"
        f"{addresses} ip link set {config.name} mtu {config.mtu} up"
    )


def _on_routing(verb: str, what: Route | Rule | OwnAddress, names: Mapping[int, str]) -> str:
    if isinstance(what, OwnAddress):
        return f"ip address {verb} {what.address} dev {_name(what.interface, names)}"
    if isinstance(what, Route):
        return f"ip {_family(what.destination.version)}route {verb} {_route(what, names)}"
    return f"ip {_family(what.packets.version)}rule {verb} {_rule(what)}"


def _family(version: int) -> str:
    return "-6 " if version == 6 else ""


def _route(route: Route, names: Mapping[int, str]) -> str:
    words = [
        *(["unreachable"] if route.interface is None else []),
        "default" if route.is_default else str(route.destination),
        *([f"via {_via(route)}"] if route.gateway else []),
        *([] if route.interface is None else [f"dev {_name(route.interface, names)}"]),
        *(["onlink"] if route.gateway else []),
        *([f"table {route.table}"] if route.table != MAIN else []),
        f"metric {route.metric}",
        f"proto {route.protocol}",
        *([f"src {route.source}"] if route.source else []),
    ]
    return " ".join(words)


def _via(route: Route) -> str:
    """ip(8) takes the family before a gateway of the other IP version."""
    gateway = route.gateway
    is_other = gateway is not None and gateway.version != route.destination.version
    return f"inet{'6' if gateway and gateway.version == 6 else ''} {gateway}" if is_other else str(gateway)


def _rule(rule: Rule) -> str:
    action = "unreachable" if rule.table is None else f"lookup {rule.table}"
    return f"priority {rule.priority} {_packets(rule.packets)} {action} protocol {rule.protocol}"


def _packets(packets: Address | Network | Mark) -> str:
    if not isinstance(packets, Mark):
        return f"from {packets}"
    return f"fwmark {packets.value:#x}" + (f"/{packets.mask:#x}" if packets.mask != EVERY_BIT else "")


def _endpoint(number: int, endpoint: Endpoint, names: Mapping[int, str]) -> str:
    interface = _name(endpoint.interface, names)
    flags = " ".join((flag.name or "").lower() for flag in Flags if flag in endpoint.flags)
    return f"{endpoint.address} dev {interface} id {number} {flags}"
