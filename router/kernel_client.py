"""All access to the kernel: a snapshot of what matters, and one operation after another."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from router.lan.npt import DELETE_TABLE, PrefixTranslation, rules
from router.state.plan import Add, NumberedEndpoint, Operation, Remove, TunnelInterface
from router.tunnels.model import TunnelConfig
from tributary.closing import Closing
from tributary.kernel import mptcp_pm, nft, rtnetlink, wireguard
from tributary.kernel.interfaces import driver_and_bus
from tributary.kernel.mptcp_pm import Command
from tributary.kernel.netlink import (
    ACK,
    CREATE,
    EXCLUSIVE,
    GENERIC,
    ROUTE,
    Interrupted,
    Malformed,
    Message,
    Netlink,
    family,
)
from tributary.kernel.state import Interface, KernelState, Limits, OwnAddress, Route, Rule
from tributary.settings.errors import CommandError, Exit

_TRIES = 5
"""Of a snapshot, when the state changes meanwhile."""
_GONE = {errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL}
"""The kernel's errors when a rule, a route or an address to delete does not exist."""

T = TypeVar("T")


class KernelClient(Closing):
    """A context manager. Operations need CAP_NET_ADMIN, snapshots do not.

    Raises CommandError, exit 69, if the kernel has no MPTCP.
    """

    def __init__(self) -> None:
        self._route = Netlink(ROUTE)
        self._generic = Netlink(GENERIC)
        try:
            self._mptcp, _ = family(self._generic, mptcp_pm.FAMILY)
        except CommandError:
            self.close()
            raise

    def close(self) -> None:
        self._route.close()
        self._generic.close()

    def snapshot(self) -> KernelState:
        """Raises CommandError, exit 71, also if the state changes faster than it can be read."""
        for _ in range(_TRIES):
            try:
                return self._snapshot()
            except Interrupted:
                continue
            except (OSError, Malformed) as error:
                raise CommandError(Exit.SYSTEM, f"cannot read links, routes and endpoints: {error}") from error
        raise CommandError(Exit.SYSTEM, "links and routes change too fast to be read")

    def _snapshot(self) -> KernelState:
        routes = self._route.dump(*rtnetlink.EVERY_ROUTE)
        endpoints = self._generic.dump(self._mptcp, mptcp_pm.question(Command.GET))
        return KernelState(
            interfaces=tuple(map(_interface, self._route.dump(*rtnetlink.EVERY_LINK))),
            addresses=_present(rtnetlink.address, self._route.dump(*rtnetlink.EVERY_ADDRESS)),
            routes=tuple(chain.from_iterable(map(rtnetlink.routes, routes))),
            rules=_present(rtnetlink.rule, self._route.dump(*rtnetlink.EVERY_RULE)),
            endpoints=dict(map(mptcp_pm.endpoint, endpoints)),
            limits=mptcp_pm.limits(self._generic.ask(self._mptcp, mptcp_pm.question(Command.GET_LIMITS))),
        )

    def apply(self, operation: Operation) -> None:
        """Applies one operation. To remove what does not exist is no error.

        Raises OSError with the kernel's message, or CommandError with that of a program.
        """
        what = operation.what
        match what:
            case Route() | Rule() | OwnAddress():
                self._route_request(what, isinstance(operation, Add))
            case NumberedEndpoint(number, endpoint) if isinstance(operation, Remove):
                self._remove_endpoint(mptcp_pm.endpoint_body(Command.DELETE, number, endpoint))
            case NumberedEndpoint(number, endpoint):
                command = Command.ADD if isinstance(operation, Add) else Command.SET_FLAGS
                self._send(mptcp_pm.endpoint_body(command, number, endpoint))
            case Limits():
                self._send(mptcp_pm.limits_body(what))
            case TunnelInterface(name):
                (wireguard.remove if isinstance(operation, Remove) else wireguard.create)(name)
            case TunnelConfig():
                wireguard.configure(what.name, what.interface)
                wireguard.set_addresses(what.name, what.inside, what.mtu)
            case PrefixTranslation():
                nft.execute(DELETE_TABLE if isinstance(operation, Remove) else rules(what))

    def _route_request(self, what: Route | Rule | OwnAddress, is_new: bool) -> None:
        if is_new:
            self._route.ask(*rtnetlink.addition(what), ACK | CREATE | EXCLUSIVE)
            return
        try:
            self._route.ask(*rtnetlink.removal(what), ACK)
        except OSError as error:
            if error.errno not in _GONE:
                raise

    def _send(self, body: bytes) -> None:
        self._generic.ask(self._mptcp, body, ACK)

    def _remove_endpoint(self, body: bytes) -> None:
        try:
            self._send(body)
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
