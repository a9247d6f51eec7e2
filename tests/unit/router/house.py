"""A house with access links for the tests: what the kernel would say of it, and what it would after some steps."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_interface

from router.identifiers import MAIN
from router.settings import RouterSettings
from router.state.plan import (
    Add,
    AddEndpoint,
    ChangeEndpoint,
    ConfigureTunnel,
    CreateTunnel,
    Operation,
    Remove,
    RemoveEndpoint,
    RemoveTunnel,
    SetLimits,
    command,
)
from tributary.kernel.state import (
    EVERYWHERE,
    Endpoint,
    Interface,
    InterfaceAddress,
    KernelState,
    Limits,
    OwnAddress,
    Route,
    Rule,
)
from tributary.settings.files import check

KERNEL, DHCP = 2, 16
"""Protocols of routes, of linux/rtnetlink.h."""

SETTINGS = """
[wan.dsl]
interface = "eth0"
[wan.lte]
interface = "usb*"
"""


def settings(text: str = SETTINGS) -> RouterSettings:
    return check(tomllib.loads(text), RouterSettings, "test")


@dataclass(frozen=True)
class Plug:
    """An interface, its addresses with their prefixes, and the gateways of its default routes."""

    interface: Interface
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    metric: int = 1024

    def routes(self) -> list[Route]:
        index = self.interface.index
        near = [
            Route(MAIN, ip_interface(each).network, None, index, 0, KERNEL, ip_interface(each).ip)
            for each in self.addresses
        ]
        far = [
            Route(MAIN, EVERYWHERE[gateway.version], gateway, index, self.metric, DHCP)
            for gateway in map(ip_address, self.gateways)
        ]
        return near + far


DSL = Plug(Interface(2, "eth0"), ("192.168.1.2/24",), ("192.168.1.1",))
LTE = Plug(Interface(3, "usb0"), ("10.64.0.2/30", "2001:db8:2::2/64"), ("10.64.0.1", "2001:db8:2::1"), 1025)


def house(*plugs: Plug, routes: Iterable[Route] = (), endpoints: Mapping[int, Endpoint] | None = None) -> KernelState:
    """What the kernel says when nothing is installed but ``routes`` and ``endpoints``."""
    return KernelState(
        interfaces=(Interface(1, "lo", is_loopback=True), *(plug.interface for plug in plugs)),
        addresses=tuple(
            InterfaceAddress(plug.interface.index, ip_interface(each).ip, created=number)
            for plug in plugs
            for number, each in enumerate(plug.addresses)
        ),
        routes=(*(route for plug in plugs for route in plug.routes()), *routes),
        endpoints=endpoints or {},
        limits=Limits(2, 0),
    )


def cut(plug: Plug) -> Plug:
    return replace(plug, interface=replace(plug.interface, has_carrier=False))


def after(observed: KernelState, operations: Sequence[Operation]) -> KernelState:
    """What the kernel says when ``steps`` were done; it takes the routes of what has gone by itself."""
    routes, rules = list(observed.routes), list(observed.rules)
    endpoints, limits = dict(observed.endpoints), observed.limits
    for operation in operations:
        match operation:
            case Add(Route() as route):
                assert route not in routes
                routes.append(route)
            case Remove(Route() as route):
                routes.remove(route)
            case Add(Rule() as rule):
                assert rule not in rules
                rules.append(rule)
            case Remove(Rule() as rule):
                rules.remove(rule)
            case AddEndpoint(number, endpoint):
                assert number not in endpoints
                assert endpoint.address not in {each.address for each in endpoints.values()}
                endpoints[number] = endpoint
            case RemoveEndpoint(number, endpoint):
                assert endpoints.pop(number) == endpoint
            case ChangeEndpoint(number, endpoint):
                assert endpoints[number].address == endpoint.address
                endpoints[number] = endpoint
            case SetLimits(new):
                limits = new
    there = _interfaces(observed.interfaces, operations)
    indices = {interface.index for interface in there}
    left = tuple(route for route in routes if route.interface is None or route.interface in indices)
    return replace(
        observed,
        interfaces=there,
        addresses=_addresses(observed.addresses, operations),
        routes=left,
        rules=tuple(rules),
        endpoints=endpoints,
        limits=limits,
    )


def _addresses(observed: Iterable[InterfaceAddress], operations: Iterable[Operation]) -> tuple[InterfaceAddress, ...]:
    """Those that are there after the steps about the LAN's."""
    there = list(observed)
    for operation in operations:
        match operation:
            case Add(OwnAddress(interface, address)):
                there.append(InterfaceAddress(interface, address.ip))
            case Remove(OwnAddress(interface, address)):
                there.remove(InterfaceAddress(interface, address.ip))
    return tuple(there)


def _interfaces(observed: Iterable[Interface], operations: Iterable[Operation]) -> tuple[Interface, ...]:
    """Those that are there after the tunnels' steps."""
    there = {interface.name: interface for interface in observed}
    for operation in operations:
        match operation:
            case CreateTunnel(name):
                assert name not in there
                there[name] = Interface(max(each.index for each in there.values()) + 100, name)
            case ConfigureTunnel(setup):
                assert setup.name in there
            case RemoveTunnel(name):
                del there[name]
    return tuple(there.values())


def changed(observed: KernelState, now: KernelState) -> KernelState:
    """The house ``now``, with what was installed in ``observed`` as far as the kernel keeps it."""
    known = {interface.name for interface in now.interfaces}
    tunnels = [each for each in observed.interfaces if each.name not in known and each.name.startswith("tb")]
    now = replace(now, interfaces=(*now.interfaces, *tunnels))
    there = {interface.index for interface in now.interfaces}
    ours = [
        route
        for route in observed.routes
        if route.protocol not in (KERNEL, DHCP) and (route.interface is None or route.interface in there)
    ]
    return replace(
        now, routes=(*now.routes, *ours), rules=observed.rules, endpoints=observed.endpoints, limits=observed.limits
    )


def texts(operations: Iterable[Operation], observed: KernelState) -> list[str]:
    """The steps as commands of ip(8)."""
    names = {interface.index: interface.name for interface in observed.interfaces}
    return [command(operation, names) for operation in operations]
