"""Messages to and from the kernel (netlink(7)): requests, dumps, and the families of generic netlink.

A library would do (pyroute2), but each event costs Python time here, and few of its parts would be used.
"""

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from tributary.closing import Closing
from tributary.settings.errors import CommandError, Exit

ROUTE, SOCK_DIAG, GENERIC = 0, 4, 16
"""Protocols of linux/netlink.h."""
REQUEST, ACK, ECHO, DUMP, EXCLUSIVE, CREATE = 0x1, 0x4, 0x8, 0x300, 0x200, 0x400
"""Flags, NLM_F_*."""
_DUMP_INTERRUPTED = 0x10
_ERROR, _DONE = 2, 3
_SOL_NETLINK, _ADD_MEMBERSHIP, _EXT_ACK = 270, 1, 11
_ACK_TLVS, _CAPPED = 0x200, 0x100
_ERROR_TEXT = 1
_NESTED = 0x3FFF
_BUFFER = 2**20
_WATCH_BUFFER = 2**18
"""Bytes of a queue of changes. An overflow is a change, too."""
_TIMEOUT = 5.0
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
# Generic netlink's controller (linux/genetlink.h).
_CONTROLLER, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME, _GROUPS, _GROUP_NAME, _GROUP_ID = 16, 3, 1, 2, 7, 1, 2


class Malformed(ValueError):
    """A message that is not as linux/netlink.h says."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its type, flags and what comes after its header."""

    kind: int
    flags: int
    sequence: int
    body: bytes


def attribute(kind: int, data: bytes) -> bytes:
    """An attribute with its padding."""
    return _ATTRIBUTE.pack(len(data) + 4, kind) + data + bytes(-len(data) % 4)


def attributes(data: bytes, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """Kinds and contents of the attributes from byte ``at`` on; raises Malformed."""
    while at + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4 or at + length > len(data):
            raise Malformed(f"attribute of {length} bytes at byte {at} of {len(data)}")
        yield kind & _NESTED, data[at + 4 : at + length]
        at += length + 3 & ~3


def messages(data: bytes) -> Iterator[Message]:
    """The messages of one datagram; raises Malformed."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            raise Malformed(f"message of {length} bytes at byte {at} of {len(data)}")
        yield Message(kind, flags, sequence, data[at + _HEADER.size : at + length])
        at += length + 3 & ~3


class Interrupted(Exception):
    """What is dumped changed meanwhile: entries may be missing."""


class Netlink(Closing):
    """A socket of one protocol; a context manager. Requests raise OSError, with the kernel's own words."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.settimeout(_TIMEOUT)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        self._socket.bind((0, 0))
        self._sequence = count(1)

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def listen(self, group: int, buffer: int) -> None:
        """Receive what is sent to a multicast group, without blocking, into so many bytes of queue."""
        self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), buffer)
        self._socket.setblocking(False)

    def queued(self, what: str) -> Iterator[bytes | None]:
        """The datagrams that have come to a listener, None where some were lost; raises CommandError, exit 71."""
        while True:
            try:
                yield self._socket.recv(_BUFFER)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise CommandError(Exit.SYSTEM, f"cannot read the kernel's {what}: {error}") from error
                yield None

    def ask(self, kind: int, body: bytes, flags: int = 0) -> Message:
        """The one message that answers a request."""
        sequence = self._send(kind, REQUEST | flags, body)
        return next(answer for answer in self._answers(sequence))

    def dump(self, kind: int, body: bytes) -> Iterator[Message]:
        """All messages that answer a request for everything; raises Interrupted at the end if some may be missing."""
        interrupted = False
        answers = self._answers(self._send(kind, REQUEST | DUMP, body))
        for answer in answers:
            interrupted |= bool(answer.flags & _DUMP_INTERRUPTED)
            if answer.kind == _DONE:
                break
            try:
                yield answer
            except GeneratorExit:
                # The kernel begins no other dump before this one is read to its end (EBUSY, __netlink_dump_start()).
                with suppress(OSError, Malformed):
                    any(rest.kind == _DONE for rest in answers)
                raise
        if interrupted:
            raise Interrupted

    def _send(self, kind: int, flags: int, body: bytes) -> int:
        sequence = next(self._sequence)
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body)
        return sequence

    def _answers(self, sequence: int) -> Iterator[Message]:
        while True:
            for answer in messages(self._socket.recv(_BUFFER)):
                if answer.sequence == sequence:
                    _raise_error(answer)
                    yield answer


class Watch(Netlink):
    """Notices that something has changed, by the messages to multicast groups."""

    def __init__(self, protocol: int, *groups: int) -> None:
        """Raises CommandError, exit 71."""
        super().__init__(protocol)
        try:
            for group in groups:
                self.listen(group, _WATCH_BUFFER)
        except OSError as error:
            self.close()
            raise CommandError(Exit.SYSTEM, f"cannot listen to the kernel's changes: {error}") from error

    def has_changes(self) -> bool:
        """Whether anything has changed since the last call, or was lost; raises CommandError, exit 71."""
        return bool(list(self.queued("changes")))


_kept = threading.local()


def kept(protocol: int) -> Netlink:
    """This thread's socket of that protocol, which stays open: two threads would take each other's answers."""
    sockets: dict[int, Netlink] = _kept.__dict__.setdefault("sockets", {})
    if protocol not in sockets:
        sockets[protocol] = Netlink(protocol)
    return sockets[protocol]


def _raise_error(answer: Message) -> None:
    if answer.kind != _ERROR or len(answer.body) < 4:
        return
    number = -struct.unpack_from("=i", answer.body)[0]
    if number:
        raise OSError(number, _complaint(answer) or os.strerror(number))


def _complaint(answer: Message) -> str:
    """The kernel's own words (NLMSGERR_ATTR_MSG), which come after the request's header, or after all of it."""
    if not answer.flags & _ACK_TLVS or len(answer.body) < 4 + _HEADER.size:
        return ""
    length = _HEADER.size if answer.flags & _CAPPED else _HEADER.unpack_from(answer.body, 4)[0]
    try:
        found = dict(attributes(answer.body, 4 + length))
    except Malformed:
        return ""
    return found.get(_ERROR_TEXT, b"").rstrip(b"\0").decode(errors="replace")


def family(link: Netlink, name: str) -> tuple[int, dict[str, int]]:
    """The number of a generic netlink family, and those of its multicast groups; raises CommandError, exit 69."""
    body = struct.pack("=BBxx", _GET_FAMILY, 1) + attribute(_FAMILY_NAME, name.encode() + b"\0")
    try:
        found = dict(attributes(link.ask(_CONTROLLER, body).body, 4))
        groups = [dict(attributes(group)) for _, group in attributes(found.get(_GROUPS, b""))]
        numbers = {
            group[_GROUP_NAME].rstrip(b"\0").decode(): int(struct.unpack("=I", group[_GROUP_ID])[0]) for group in groups
        }
        return int(struct.unpack("=H", found[_FAMILY_ID])[0]), numbers
    except (OSError, Malformed, KeyError, struct.error) as error:
        raise CommandError(Exit.UNAVAILABLE, f"the kernel has no generic netlink family {name} ({error})") from error
