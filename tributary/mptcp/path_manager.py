"""The kernel's own MPTCP events (generic netlink, family mptcp_pm; linux/mptcp_pm.h).

Cheaper than the wire and complete, for sessions that end on this host: CREATED for a session and its first subflow,
right after the third ACK; SUB_ESTABLISHED for one that joined, when its HMAC was right; SUB_CLOSED; and CLOSED when
the application closes the session's socket, whose subflows may have more to send. An attribute that a kernel leaves
out is zero.
"""

import errno
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from itertools import islice

from tributary.kernel.mptcp_pm import family_number
from tributary.kernel.netlink import GENERIC, Malformed, Message, Netlink, attributes, family, messages
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.errors import CommandError, Exit

_FAMILY, _GROUP = "mptcp_pm", "mptcp_pm_events"
_BUFFER = 8 * 2**20
"""Bytes of the socket's queue: some ten thousand events while Python is busy."""
_GENERIC_HEADER = 4

InterfaceOf = Callable[[FourTuple], str | None]


class Kind(IntEnum):
    """Events, enum mptcp_event_type."""

    CREATED = 1
    CLOSED = 3
    SUB_ESTABLISHED = 10
    SUB_CLOSED = 11
    SUB_PRIORITY = 13


# Attributes of events, enum mptcp_event_attr.
_TOKEN, _SADDR4, _SADDR6, _DADDR4, _DADDR6, _SPORT, _DPORT, _BACKUP, _ERROR, _FLAGS = 1, *range(5, 14)
_SERVER_SIDE = 18
_FLAG_SERVER_SIDE = 2
"""Of the flags, since Linux 6.18; before there is an attribute of its own."""


class EventsLost(Exception):
    """The queue was full: events were lost, and the state must be read otherwise."""


class PathManager(Netlink):
    """The events of this network namespace; a context manager. Needs CAP_NET_ADMIN."""

    def __init__(self, interface_of: InterfaceOf, buffer: int = _BUFFER) -> None:
        super().__init__(GENERIC)
        self._interface_of = interface_of
        try:
            _, groups = family(self, _FAMILY)
            self.listen(groups[_GROUP], buffer)
        except (OSError, KeyError) as error:
            self.close()
            raise CommandError(Exit.SYSTEM, f"cannot listen to the kernel's MPTCP events: {error}") from error
        except CommandError:
            self.close()
            raise

    @staticmethod
    def is_available() -> bool:
        try:
            return bool(family_number())
        except CommandError:
            return False

    def events(self, most: int) -> Iterator[Event]:
        """The queued events of at most ``most`` datagrams; raises EventsLost."""
        for data in islice(self.queued("MPTCP events"), most):
            if data is None:
                # What else is queued is older than the next scan of the sockets.
                deque(self.queued("MPTCP events"), maxlen=0)
                raise EventsLost
            for message in _whole(data):
                event = read(message, time.monotonic_ns(), self._interface_of)
                if event is not None:
                    yield event


def _whole(data: bytes) -> list[Message]:
    """The messages of a datagram, none if it is broken."""
    try:
        return list(messages(data))
    except Malformed:
        return []


def read(message: Message, now: int, interface_of: InterfaceOf) -> Event | None:
    """The event in ``message``, None for other kinds and incomplete messages."""
    if not message.body:
        return None
    try:
        found = dict(attributes(message.body, _GENERIC_HEADER))
        return _event(message.body[0], found, now, interface_of)
    except (Malformed, KeyError, struct.error, ValueError):
        return None


def _event(kind: int, found: Mapping[int, bytes], now: int, interface_of: InterfaceOf) -> Event | None:
    (name,) = struct.unpack("=I", found[_TOKEN])
    match kind:
        case Kind.CREATED | Kind.SUB_ESTABLISHED:
            return _established(name, found, now, interface_of, initial=kind == Kind.CREATED)
        case Kind.SUB_CLOSED:
            return SubflowClosed(now, name, _subflow(found), _reason(found.get(_ERROR)))
        case Kind.SUB_PRIORITY:
            return SubflowPriority(now, name, _subflow(found), _number(found, _BACKUP) != 0)
        case Kind.CLOSED:
            return SessionClosed(now, name, Ended.CLOSED)
        case _:
            return None


def _reason(error: bytes | None) -> Ended:
    """Why a subflow ended, by its socket's errno(3), one byte."""
    if error is None:
        return Ended.CLOSED
    return Ended.TIMEOUT if error[0] == errno.ETIMEDOUT else Ended.RESET


def _established(
    name: int, found: Mapping[int, bytes], now: int, interface_of: InterfaceOf, initial: bool
) -> SubflowEstablished:
    subflow = _subflow(found)
    return SubflowEstablished(
        time=now,
        token=name,
        subflow=subflow,
        interface=interface_of(subflow) or "",
        initial=initial,
        backup=_number(found, _BACKUP) != 0,
        is_own=initial and not (_number(found, _SERVER_SIDE) or _number(found, _FLAGS) & _FLAG_SERVER_SIDE),
    )


def _subflow(found: Mapping[int, bytes]) -> FourTuple:
    (local_port,), (remote_port,) = (struct.unpack("!H", found[each]) for each in (_SPORT, _DPORT))
    return FourTuple(_address(found, _SADDR4, _SADDR6), local_port, _address(found, _DADDR4, _DADDR6), remote_port)


def _address(found: Mapping[int, bytes], four: int, six: int) -> str:
    if four in found:
        return socket.inet_ntop(socket.AF_INET, found[four])
    return address6(found[six])


def address6(data: bytes) -> str:
    """Sixteen bytes as text; an IPv4-mapped address (RFC 4291 section 2.5.5.2) as IPv4."""
    if data.startswith(bytes(10) + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, data[12:])
    return socket.inet_ntop(socket.AF_INET6, data)


def _number(found: Mapping[int, bytes], which: int) -> int:
    """An attribute of one byte, 0 if it is left out."""
    return found.get(which, b"\0")[0]
