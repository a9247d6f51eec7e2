"""From what is installed to what is wanted: the steps, and each as the command of ip(8) that does the same. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from router.lan import LanAddress
from router.observed import EVERY_BIT, Address, Endpoint, Flags, Limits, Mark, Network, Route, Rule
from router.ours import MAIN, NUMBERS
from router.translation import TABLE, Translation
from router.tunnels import Setup
from router.wanted import Installed, Wanted


@dataclass(frozen=True)
class Add:
    """Make a rule, a route, or the router's address in the LAN."""

    what: Route | Rule | LanAddress


@dataclass(frozen=True)
class Remove:
    """Take one of these away; that it is gone is no error."""

    what: Route | Rule | LanAddress


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
class ChangeEndpoint:
    """Make an endpoint a backup, or one no more; its subflows stay, and say so by MP_PRIO (RFC 8684 section 3.3.8)."""

    number: int
    endpoint: Endpoint


@dataclass(frozen=True)
class SetLimits:
    """Set the path manager's limits."""

    limits: Limits


@dataclass(frozen=True)
class MakeTunnel:
    """Make a WireGuard interface, which is not set up yet."""

    name: str


@dataclass(frozen=True)
class SetTunnel:
    """Give a tunnel's interface its keys, peer, address and MTU, and switch it on."""

    setup: Setup


@dataclass(frozen=True)
class RemoveTunnel:
    """Take a tunnel's interface away; that it is gone is no error."""

    name: str


@dataclass(frozen=True)
class Translate:
    """Put the rules that translate the LAN's prefix in the place of what is there; None: take them away."""

    translation: Translation | None


Step = (
    Add
    | Remove
    | AddEndpoint
    | RemoveEndpoint
    | ChangeEndpoint
    | SetLimits
    | MakeTunnel
    | SetTunnel
    | RemoveTunnel
    | Translate
)


def difference(wanted: Wanted, installed: Installed, taken: Collection[int], last: int) -> tuple[Step, ...]:
    """The steps, in an order in which no endpoint stands without its rule, and no rule without its table's routes.

    ``taken`` are ids of all endpoints that are there, ``last`` is the id that was given out last.
    """
    changed = {
        number: each
        for number, before in installed.endpoints.items()
        for each in wanted.endpoints
        if replace(each, flags=each.flags ^ Flags.BACKUP) == before
    }
    standing = {**installed.endpoints, **changed}
    stale = [each for each in standing.items() if each[1] not in wanted.endpoints]
    new = [each for each in wanted.endpoints if each not in standing.values()]
    limits = wanted.limits if wanted.limits != installed.limits else None
    setups = [each for each in wanted.setups if installed.tunnels.get(each.name) != each]
    return (
        *(RemoveEndpoint(number, endpoint) for number, endpoint in stale),
        *(ChangeEndpoint(number, endpoint) for number, endpoint in changed.items()),
        *(Remove(each) for each in installed.lan if each not in wanted.lan),
        *map(Remove, sorted(installed.rules - set(wanted.rules), key=str)),
        *map(Remove, sorted(installed.routes - set(wanted.routes), key=str)),
        *(RemoveTunnel(name) for name in installed.tunnels if name not in wanted.tunnels),
        *((SetLimits(limits),) if limits else ()),
        *(MakeTunnel(name) for name in wanted.tunnels if name not in installed.tunnels),
        *(Add(route) for route in dict.fromkeys(wanted.routes) if route not in installed.routes),
        *(Add(rule) for rule in dict.fromkeys(wanted.rules) if rule not in installed.rules),
        # Behind the rules: what a tunnel sends first must leave by its own link.
        *map(SetTunnel, setups),
        *((Translate(wanted.translation),) if wanted.translation != installed.translation else ()),
        *(Add(each) for each in wanted.lan if each not in installed.lan),
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
        case Add(what) | Remove(what):
            return _on_routing("add" if isinstance(step, Add) else "del", what, names)
        case AddEndpoint(number, endpoint):
            return f"ip mptcp endpoint add {_endpoint(number, endpoint, names)}"
        case RemoveEndpoint(number, endpoint):
            return f"ip mptcp endpoint delete id {number}"
        case ChangeEndpoint(number, endpoint):
            return f"ip mptcp endpoint change id {number} {'' if Flags.BACKUP in endpoint.flags else 'no'}backup"
        case SetLimits(limits):
            return f"ip mptcp limits set subflows {limits.subflows} add_addr_accepted {limits.accepted_addresses}"
        case MakeTunnel(name):
            return f"ip link add {name} type wireguard"
        case SetTunnel(setup):
            return _setup(setup)
        case RemoveTunnel(name):
            return f"ip link delete dev {name}"
        case Translate(translation):
            return _translating(translation)


def _translating(translation: Translation | None) -> str:
    """As nft(8) gets it, in short."""
    if translation is None:
        return f"nft delete table inet {TABLE}"
    said = ", ".join(f"{each.prefix} by {each.interface}" for each in translation.sides) or "nothing"
    return f"nft --file - (table inet {TABLE}: {translation.inside} of {translation.lan} becomes {said})"


def _name(interface: int, names: Mapping[int, str]) -> str:
    return names.get(interface, f"if{interface}")


def _setup(setup: Setup) -> str:
    """The commands in a line; keys are nobody's business."""
    given = "".join(f" ip address replace {address} dev {setup.name};" for address in setup.inside)
    peers = " ".join(f"endpoint {peer.endpoint or '(unknown yet)'}" for peer in setup.interface.peers)
    return (
        f"wg set {setup.name} fwmark {setup.interface.mark:#x} peer ... {peers};"
        f"{given} ip link set {setup.name} mtu {setup.mtu} up"
    )


def _on_routing(verb: str, what: Route | Rule | LanAddress, names: Mapping[int, str]) -> str:
    if isinstance(what, LanAddress):
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
