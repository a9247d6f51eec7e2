"""All access to the kernel: a snapshot of what matters, and one operation after another."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, rtnl

from router.lan.npt import DELETE_TABLE, rules
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
    Translate,
)
from tributary.closing import Closing
from tributary.kernel import mptcp_pm, nft, rtnetlink, wireguard
from tributary.kernel.interfaces import driver_and_bus
from tributary.kernel.mptcp_pm import Command
from tributary.kernel.netlink import GENERIC, ROUTE, Interrupted, Malformed, Message, Netlink, family
from tributary.kernel.state import Interface, KernelState, OwnAddress, Route, Rule
from tributary.settings.errors import CommandError, Exit

_TRIES = 5
"""Of a snapshot, when the state changes meanwhile."""
_GONE = {errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL}
"""The kernel's errors when a rule, a route or an address to delete does not exist."""

_MADE_BY = {Route: rtnl.RTM_NEWROUTE, Rule: rtnl.RTM_NEWRULE, OwnAddress: rtnl.RTM_NEWADDR}
_TAKEN_BY = {Route: rtnl.RTM_DELROUTE, Rule: rtnl.RTM_DELRULE, OwnAddress: rtnl.RTM_DELADDR}
_TELLS = {AddEndpoint: Command.ADD, ChangeEndpoint: Command.SET_FLAGS}

BY_PROGRAMS = (CreateTunnel, ConfigureTunnel, RemoveTunnel, Translate)
"""Operations that run a program; all others are one message to the kernel."""

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
        return KernelState(
            interfaces=tuple(map(self._interface, self._dump(rtnl.RTM_GETLINK, rtnetlink.EVERY_LINK))),
            addresses=_present(rtnetlink.address, self._dump(rtnl.RTM_GETADDR, rtnetlink.EVERY_ADDRESS)),
            routes=tuple(self._routes()),
            rules=_present(rtnetlink.rule, self._dump(rtnl.RTM_GETRULE, rtnetlink.EVERY_RULE)),
            endpoints=dict(map(mptcp_pm.endpoint, self._ask_for_endpoints())),
            limits=mptcp_pm.limits(self._generic.ask(self._mptcp, mptcp_pm.question(Command.GET_LIMITS))),
        )

    def _dump(self, kind: int, body: bytes) -> Iterator[Message]:
        return self._route.dump(kind, body)

    @staticmethod
    def _interface(message: Message) -> Interface:
        found = rtnetlink.interface(message)
        driver, bus = driver_and_bus(found.name)
        return replace(found, driver=driver, bus=bus)

    def _routes(self) -> Iterator[Route]:
        for message in self._dump(rtnl.RTM_GETROUTE, rtnetlink.EVERY_ROUTE):
            yield from rtnetlink.routes(message)

    def _ask_for_endpoints(self) -> Iterator[Message]:
        return self._generic.dump(self._mptcp, mptcp_pm.question(Command.GET))

    def apply(self, operation: Operation) -> None:
        """Applies one operation. To remove what does not exist is no error.

        Raises OSError with the kernel's message, or CommandError with that of a program.
        """
        match operation:
            case Add(what):
                self._create(what)
            case Remove(what):
                self._delete(what)
            case AddEndpoint(number, endpoint) | ChangeEndpoint(number, endpoint):
                self._send(mptcp_pm.endpoint_body(_TELLS[type(operation)], number, endpoint))
            case RemoveEndpoint(number, endpoint):
                self._remove_endpoint(mptcp_pm.endpoint_body(Command.DELETE, number, endpoint))
            case SetLimits(limits):
                self._send(mptcp_pm.limits_body(limits))
            case CreateTunnel(name):
                wireguard.create(name)
            case ConfigureTunnel(config):
                wireguard.configure(config.name, config.interface)
                wireguard.set_addresses(config.name, config.inside, config.mtu)
            case RemoveTunnel(name):
                wireguard.remove(name)
            case Translate(translation):
                nft.execute(rules(translation) if translation else DELETE_TABLE)

    def _create(self, what: Route | Rule | OwnAddress) -> None:
        self._route.ask(_MADE_BY[type(what)], _body(what), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)

    def _delete(self, what: Route | Rule | OwnAddress) -> None:
        try:
            self._route.ask(_TAKEN_BY[type(what)], _body(what), NLM_F_ACK)
        except OSError as error:
            if error.errno not in _GONE:
                raise

    def _send(self, body: bytes) -> None:
        self._generic.ask(self._mptcp, body, NLM_F_ACK)

    def _remove_endpoint(self, body: bytes) -> None:
        try:
            self._send(body)
        except OSError as error:
            # "address not found" is EINVAL (mptcp_pm_nl_del_addr_doit of net/mptcp/pm_kernel.c).
            if error.errno not in (errno.EINVAL, *_GONE):
                raise


def _body(what: Route | Rule | OwnAddress) -> bytes:
    if isinstance(what, OwnAddress):
        return rtnetlink.address_body(what)
    return rtnetlink.route_body(what) if isinstance(what, Route) else rtnetlink.rule_body(what)


def _present(read: Callable[[Message], T | None], found: Iterator[Message]) -> tuple[T, ...]:
    return tuple(each for each in map(read, found) if each is not None)
