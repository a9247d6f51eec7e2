"""A house with access links for the tests: what the kernel would say of it, and what it would after some steps."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_interface

from router.identifiers import MAIN
from router.links.model import Link
from router.settings import RouterSettings
from router.state.owned import NOTHING_OWNED, OwnershipRecord
from router.state.plan import Add, Change, NumberedEndpoint, Operation, Remove, TunnelInterface, command
from router.state.reconciler import Reconciler
from router.tunnels.model import TunnelConfig
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
    return check(tomllib.loads(text), RouterSettings, "router.toml")


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
LAN = Plug(Interface(4, "end0"))
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
    for place, operation in enumerate(operations):
        match operation:
            case Add(Route() as route):
                assert route not in routes
                # It would lead to the gateway that the tunnel had before it is set up.
                later = [each.what for each in operations[place:] if isinstance(each, Change)]
                assert route.source not in [each.addresses[0] for each in later if isinstance(each, TunnelConfig)]
                routes.append(route)
            case Remove(Route() as route):
                routes.remove(route)
            case Add(Rule() as rule):
                assert rule not in rules
                rules.append(rule)
            case Remove(Rule() as rule):
                rules.remove(rule)
            case Add(NumberedEndpoint(number, endpoint)):
                assert number not in endpoints
                assert endpoint.address not in {each.address for each in endpoints.values()}
                endpoints[number] = endpoint
            case Remove(NumberedEndpoint(number, endpoint)):
                assert endpoints.pop(number) == endpoint
            case Change(NumberedEndpoint(number, endpoint)):
                assert endpoints[number].address == endpoint.address
                endpoints[number] = endpoint
            case Change(Limits() as new):
                limits = new
    there = _interfaces(observed.interfaces, operations)
    indices = {interface.index for interface in there}
    left = tuple(route for route in routes if route.interface is None or route.interface in indices)
    return replace(
        observed,
        interfaces=there,
        addresses=_addresses(observed.addresses, operations, {each.name: each.index for each in there}),
        routes=left,
        rules=tuple(rules),
        endpoints=endpoints,
        limits=limits,
    )


def _addresses(
    observed: Iterable[InterfaceAddress], operations: Iterable[Operation], names: Mapping[str, int]
) -> tuple[InterfaceAddress, ...]:
    """Those that are there after the steps about the LAN's and the tunnels'."""
    there = [each for each in observed if each.interface in names.values()]
    for operation in operations:
        match operation:
            case Add(OwnAddress(interface, address)):
                there.append(InterfaceAddress(interface, address.ip))
            case Remove(OwnAddress(interface, address)):
                there.remove(InterfaceAddress(interface, address.ip))
            case Change(TunnelConfig(name) as config):
                there = [each for each in there if each.interface != names[name]]
                there += [InterfaceAddress(names[name], address) for address in config.addresses]
    return tuple(there)


def _interfaces(observed: Iterable[Interface], operations: Iterable[Operation]) -> tuple[Interface, ...]:
    """Those that are there after the tunnels' steps."""
    there = {interface.name: interface for interface in observed}
    for operation in operations:
        match operation:
            case Add(TunnelInterface(name)):
                assert name not in there
                there[name] = Interface(max(each.index for each in there.values()) + 100, name)
            case Change(TunnelConfig(name) as config):
                there[name] = replace(there[name], is_up=True, mtu=config.mtu)
            case Remove(TunnelInterface(name)):
                del there[name]
    return tuple(there.values())


def changed(observed: KernelState, now: KernelState) -> KernelState:
    """The house ``now``, with what was installed in ``observed`` as far as the kernel keeps it."""
    known = {interface.name for interface in now.interfaces}
    tunnels = [each for each in observed.interfaces if each.name not in known and each.name.startswith("tb")]
    own = {LAN.interface.index, *(each.index for each in tunnels)}
    kept = [each for each in observed.addresses if each.interface in own]
    interfaces = (*now.interfaces, *tunnels)
    there = {interface.index for interface in interfaces}
    ours = [
        route
        for route in observed.routes
        if route.protocol not in (KERNEL, DHCP) and (route.interface is None or route.interface in there)
    ]
    return replace(observed, interfaces=interfaces, addresses=(*now.addresses, *kept), routes=(*now.routes, *ours))


def link(reconciler: Reconciler, name: str) -> Link:
    return next(each for each in reconciler.links if each.name == name)


def texts(operations: Iterable[Operation], observed: KernelState) -> list[str]:
    """The steps as commands of ip(8)."""
    names = {interface.index: interface.name for interface in observed.interfaces}
    return [command(operation, names) for operation in operations]


class Script:
    """A reconciler and the kernel that it acts upon."""

    def __init__(
        self, kernel: KernelState | None = None, text: str = SETTINGS, memory: OwnershipRecord | None = None
    ) -> None:
        self.reconciler = Reconciler(settings(text), memory or NOTHING_OWNED)
        self.kernel = kernel or KernelState()

    def step(self, wall: float = 0) -> list[str]:
        """The commands of one reconciliation, which are then done."""
        operations = self.reconciler.reconcile(self.kernel, wall, wall).operations
        said = texts(operations, self.kernel)
        self.kernel = after(self.kernel, operations)
        return said

    def reconcile(self, wall: float = 0) -> list[str]:
        """The commands that follow until nothing follows any more."""
        said: list[str] = []
        while more := self.step(wall):
            said += more
        return said

    def now(self, *plugs: Plug, wall: float = 0) -> list[str]:
        """The commands that follow when the house looks so."""
        self.kernel = changed(self.kernel, house(*plugs))
        return self.reconcile(wall)

    def answered(self, *links: str) -> list[str]:
        """The target answers by these links; the commands that follow."""
        for name in links:
            self.reconciler.health.record(name, 0.02)
        return self.reconcile()

    def failed(self, *links: str) -> list[str]:
        """It fails to answer by these so often that they count as silent; the commands that follow."""
        for _ in range(3):
            for name in links:
                self.reconciler.health.record(name, None)
        return self.reconcile()

    def remove(self) -> list[str]:
        """The commands by which all of it goes, one after the other."""
        operations = self.reconciler.removal(self.kernel)
        said = texts(operations, self.kernel)
        for operation in operations:
            self.kernel = after(self.kernel, [operation])
        return said
