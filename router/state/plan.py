"""Compares owned and desired state: the operations, and each as the command of ip(8) that does the same. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from router.identifiers import ENDPOINT_IDS, MAIN
from router.lan.npt import TABLE, PrefixTranslation
from router.state.desired import DesiredState, OwnedState
from router.tunnels.model import TunnelConfig
from tributary.kernel.state import EVERY_BIT, Address, Endpoint, Flags, Limits, Mark, Network, OwnAddress, Route, Rule


@dataclass(frozen=True)
class Add:
    """Creates a rule, a route, or the router's address in the LAN."""

    what: Route | Rule | OwnAddress


@dataclass(frozen=True)
class Remove:
    """Removes a rule, a route or an address. It is no error if it does not exist."""

    what: Route | Rule | OwnAddress


@dataclass(frozen=True)
class AddEndpoint:
    """Creates an endpoint. Sessions then join from its address."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class RemoveEndpoint:
    """Removes an endpoint, and with it the subflows from its address. It is no error if it does not exist."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class ChangeEndpoint:
    """Sets or clears an endpoint's backup flag. Its subflows stay, and send MP_PRIO (RFC 8684 section 3.3.8)."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class SetLimits:
    """Sets the path manager's limits."""

    limits: Limits


@dataclass(frozen=True)
class CreateTunnel:
    """Creates a WireGuard interface without configuration."""

    name: str


@dataclass(frozen=True)
class ConfigureTunnel:
    """Sets keys, peer, address and MTU of a tunnel's interface, and brings it up."""

    config: TunnelConfig


@dataclass(frozen=True)
class RemoveTunnel:
    """Removes a tunnel's interface. It is no error if it does not exist."""

    name: str


@dataclass(frozen=True)
class Translate:
    """Replaces the nft table that translates the LAN's prefix; None removes it."""

    translation: PrefixTranslation | None


Operation = (
    Add
    | Remove
    | AddEndpoint
    | RemoveEndpoint
    | ChangeEndpoint
    | SetLimits
    | CreateTunnel
    | ConfigureTunnel
    | RemoveTunnel
    | Translate
)


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
    new = [each for each in desired.endpoints if each not in existing.values()]
    limits = desired.limits if desired.limits != owned.limits else None
    tunnel_configs = [each for each in desired.tunnel_configs if owned.tunnels.get(each.name) != each]
    return (
        *(RemoveEndpoint(number, endpoint) for number, endpoint in stale),
        *(ChangeEndpoint(number, endpoint) for number, endpoint in changed.items()),
        *(Remove(each) for each in owned.lan if each not in desired.lan),
        *map(Remove, sorted(owned.rules - set(desired.rules), key=str)),
        *map(Remove, sorted(owned.routes - set(desired.routes), key=str)),
        *(RemoveTunnel(name) for name in owned.tunnels if name not in desired.tunnels),
        *((SetLimits(limits),) if limits else ()),
        *(CreateTunnel(name) for name in desired.tunnels if name not in owned.tunnels),
        *(Add(route) for route in dict.fromkeys(desired.routes) if route not in owned.routes),
        *(Add(rule) for rule in dict.fromkeys(desired.rules) if rule not in owned.rules),
        # After the rules: a tunnel's first packet must leave by its own link.
        *map(ConfigureTunnel, tunnel_configs),
        *((Translate(desired.translation),) if desired.translation != owned.translation else ()),
        *(Add(each) for each in desired.lan if each not in owned.lan),
        *map(AddEndpoint, free_ids(taken, last), new),
    )


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
        case Add(what) | Remove(what):
            return _on_routing("add" if isinstance(operation, Add) else "del", what, names)
        case AddEndpoint(number, endpoint):
            return f"ip mptcp endpoint add {_endpoint(number, endpoint, names)}"
        case RemoveEndpoint(number, endpoint):
            return f"ip mptcp endpoint delete id {number}"
        case ChangeEndpoint(number, endpoint):
            return f"ip mptcp endpoint change id {number} {'' if Flags.BACKUP in endpoint.flags else 'no'}backup"
        case SetLimits(limits):
            return f"ip mptcp limits set subflows {limits.subflows} add_addr_accepted {limits.accepted_addresses}"
        case CreateTunnel(name):
            return f"ip link add {name} type wireguard"
        case ConfigureTunnel(config):
            return _setup(config)
        case RemoveTunnel(name):
            return f"ip link delete dev {name}"
        case Translate(translation):
            return _translating(translation)


def _translating(translation: PrefixTranslation | None) -> str:
    """A summary of the script for nft(8)."""
    if translation is None:
        return f"nft delete table inet {TABLE}"
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
