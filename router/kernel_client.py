"""All access to the kernel: a snapshot of what matters, and one operation after another."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from router.lan.npt import DELETE_TABLE, PrefixTranslation, rules
from router.state.plan import Add, NumberedEndpoint, Operation, Remove, TunnelInterface
from router.tunnels.model import TunnelConfig
from tributary.kernel import mptcp_pm, nft, rtnetlink, wireguard
from tributary.kernel.interfaces import driver_and_bus
from tributary.kernel.netlink import ACK, CREATE, EXCLUSIVE, GENERIC, ROUTE, Interrupted, Malformed, Message, kept
from tributary.kernel.state import Interface, KernelState, Limits, OwnAddress, Route, Rule
from tributary.settings.errors import CommandError, Exit

_TRIES = 5
"""Of a snapshot, when the state changes meanwhile."""
_GONE = {errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL}
"""The kernel's errors when a rule, a route or an address to delete does not exist."""

T = TypeVar("T")


def snapshot() -> KernelState:
    """Raises CommandError: 69 without MPTCP in the kernel, 71 also if it changes too fast. Needs no capability."""
    for _ in range(_TRIES):
        try:
            return _snapshot()
        except Interrupted:
            continue
        except (OSError, Malformed) as error:
            raise CommandError(Exit.SYSTEM, f"cannot read links, routes and endpoints: {error}") from error
    raise CommandError(Exit.SYSTEM, "links and routes change too fast to be read")


def _snapshot() -> KernelState:
    route, generic, mptcp = kept(ROUTE), kept(GENERIC), mptcp_pm.family_number()
    return KernelState(
        interfaces=tuple(map(_interface, route.dump(*rtnetlink.EVERY_LINK))),
        addresses=_present(rtnetlink.address, route.dump(*rtnetlink.EVERY_ADDRESS)),
        routes=tuple(chain.from_iterable(map(rtnetlink.routes, route.dump(*rtnetlink.EVERY_ROUTE)))),
        rules=_present(rtnetlink.rule, route.dump(*rtnetlink.EVERY_RULE)),
        endpoints=dict(map(mptcp_pm.endpoint, generic.dump(mptcp, mptcp_pm.question(mptcp_pm.GET)))),
        limits=mptcp_pm.limits(generic.ask(mptcp, mptcp_pm.question(mptcp_pm.GET_LIMITS))),
    )


def apply(operation: Operation) -> None:
    """Applies one operation. To remove what does not exist is no error.

    Raises OSError with the kernel's message, or CommandError with that of a program. Needs CAP_NET_ADMIN.
    """
    what = operation.what
    match what:
        case Route() | Rule() | OwnAddress():
            _route_request(what, isinstance(operation, Add))
        case NumberedEndpoint(number, endpoint) if isinstance(operation, Remove):
            _remove_endpoint(mptcp_pm.endpoint_body(mptcp_pm.DELETE, number, endpoint))
        case NumberedEndpoint(number, endpoint):
            command = mptcp_pm.ADD if isinstance(operation, Add) else mptcp_pm.SET_FLAGS
            mptcp_pm.send(mptcp_pm.endpoint_body(command, number, endpoint))
        case Limits():
            mptcp_pm.send(mptcp_pm.limits_body(what))
        case TunnelInterface(name):
            (wireguard.remove if isinstance(operation, Remove) else wireguard.create)(name)
        case TunnelConfig():
            wireguard.configure(what.name, what.interface)
            wireguard.set_addresses(what.name, what.inside, what.mtu)
        case PrefixTranslation():
            nft.execute(DELETE_TABLE if isinstance(operation, Remove) else rules(what))


def _route_request(what: Route | Rule | OwnAddress, adds: bool) -> None:
    try:
        kept(ROUTE).ask(*rtnetlink.request(what, adds), ACK | CREATE | EXCLUSIVE if adds else ACK)
    except OSError as error:
        if adds or error.errno not in _GONE:
            raise


def _remove_endpoint(body: bytes) -> None:
    try:
        mptcp_pm.send(body)
    except OSError as error:
        # "address not found" is EINVAL (mptcp_pm_nl_del_addr_doit of net/mptcp/pm_kernel.c).
        if error.errno not in (errno.EINVAL, *_GONE):
            raise


def runs_a_program(operation: Operation) -> bool:
    """Whether it does; every other operation is one message to the kernel."""
    return isinstance(operation.what, TunnelInterface | TunnelConfig | PrefixTranslation)


def _interface(message: Message) -> Interface:
    found = rtnetlink.interface(message)
    driver, bus = driver_and_bus(found.name)
    return replace(found, driver=driver, bus=bus)


def _present(read: Callable[[Message], T | None], found: Iterator[Message]) -> tuple[T, ...]:
    return tuple(each for each in map(read, found) if each is not None)
