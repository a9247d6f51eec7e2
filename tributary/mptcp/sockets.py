"""The MPTCP subflows of this host's sockets, by socket diagnostics (sock_diag(7)), as ``ss -ti`` has them."""

import errno
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tributary.kernel import sysctl
from tributary.kernel.netlink import SOCK_DIAG, Interrupted, Malformed, Message, attributes, kept
from tributary.mptcp.events import Ended, Event, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.info import IPPROTO_MPTCP
from tributary.mptcp.path_manager import InterfaceOf, address6

_BY_FAMILY = 20
# struct inet_diag_req_v2: family, protocol, extensions, states, and the socket's identity, here all zeros; then the
# attributes of linux/inet_diag.h.
_REQUEST = struct.Struct("=BBBxI48x")
_PROTOCOL = 3  # INET_DIAG_REQ_PROTOCOL
_INFO, _ULP = 2, 19
_ULP_MPTCP = 3
_NAMES_KEPT = 16_384
"""Names of subflows that are kept for the next scan."""
_EXTENSION_INFO = 1 << _INFO - 1
# The same for one socket: ports and addresses, interface, and a cookie that says any.
_REQUEST_ONE = struct.Struct("=BBBxI2s2s16s16sI8s")
_ANY_COOKIE = b"\xff" * 8  # INET_DIAG_NOCOOKIE, twice
# struct inet_diag_msg: family, state, timer, retransmits; ports, addresses, interface and cookie; five numbers.
_ANSWER = struct.Struct("!BBBBHH16s16s4x8x20x")
# States of a subflow that its session still uses: TCP_ESTABLISHED and TCP_CLOSE_WAIT. In the others this side is done
# with it, and no event may tell of its end.
_ALIVE = 1 << 1 | 1 << 8
# States in which a socket may have data to send also when it was closed: with TCP_FIN_WAIT1, TCP_LAST_ACK and
# TCP_CLOSING. In TCP_FIN_WAIT2 and TCP_TIME_WAIT all is acknowledged.
_SENDING = _ALIVE | 1 << 4 | 1 << 9 | 1 << 11
_LISTENING = 1 << 10
# MPTCP_SUBFLOW_ATTR_* and MPTCP_SUBFLOW_FLAG_* of linux/mptcp.h
_TOKEN_LOCAL, _FLAGS = 2, 8
_BEGUN_LOCAL, _JOIN_REMOTE, _JOIN_LOCAL, _BACKUP_REMOTE, _BACKUP_LOCAL, _ESTABLISHED = (1 << bit for bit in range(1, 7))
# struct tcp_info of linux/tcp.h: round-trip time; window, retransmitted segments, bytes acknowledged and received; from
# the delivery rate on, bytes a second, and the times busy, held up by the receiver's window, and by the send buffer.
_RTT, _WINDOW, _SENT_AGAIN, _BYTES_ACKED = 68, 80, 100, 120
_SENDING_TIMES = struct.Struct("=QQQQ")
_DELIVERY_RATE = 160


Known = Mapping[FourTuple, tuple[int, bool]]
"""The token of each subflow's session, and whether it is a backup."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The established subflows, and the number of MPTCP sessions that have fallen back to plain TCP."""

    subflows: tuple[SubflowEstablished, ...]
    fallbacks: int

    def own(self, before: Collection[int] = ()) -> frozenset[int]:
        """The sessions that this host has begun, by their tokens: those whose first subflow is there, and what is left
        of those that were known ``before``.
        """
        return frozenset(each.token for each in self.subflows if each.is_own or each.token in before)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that the client has acknowledged, bytes that came from it, and the smoothed round-trip time; the congestion
    window in segments, how many segments were retransmitted, and the session's token.

    ``delivery_rate`` is the last one that TCP measured while it sent, in bytes per second, ``sending_us`` the time for
    which it had data to send that neither the receiver's window nor the send buffer held up. ``backup`` says whether
    the client asked for a backup (RFC 8684 section 3.3.8), ``made_backup`` whether this side did, ``is_own`` whether it
    is the first one of a session that this host has begun.
    """

    acked: int
    received: int
    rtt_us: int
    window: int = 0
    retransmitted: int = 0
    token: int = 0
    delivery_rate: int = 0
    sending_us: int = 0
    backup: bool = False
    made_backup: bool = False
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    subflow: FourTuple
    token: int
    flags: int
    info: bytes


def snapshot(now: int) -> Snapshot:
    """Every established subflow of this network namespace, as if it were established ``now``.

    Interfaces are left empty: to ask for routes takes longer than the rest. Raises OSError.
    """
    subflows, fallbacks = [], 0
    for found in _subflows():
        if found.flags & _ESTABLISHED or found.flags & (_JOIN_REMOTE | _JOIN_LOCAL):
            subflows.append(_established(found, now))
        else:
            fallbacks += 1
    return Snapshot(tuple(subflows), fallbacks)


def _established(found: _Found, now: int) -> SubflowEstablished:
    return SubflowEstablished(
        time=now,
        token=found.token,
        subflow=found.subflow,
        interface="",
        initial=not found.flags & (_JOIN_REMOTE | _JOIN_LOCAL),
        backup=bool(found.flags & _BACKUP_REMOTE),
        is_own=bool(found.flags & _BEGUN_LOCAL),
    )


def differences(
    known: Known, found: Snapshot, interface_of: InterfaceOf, now: int, own: Collection[int] = ()
) -> list[Event]:
    """The events that bring the ``known`` subflows to what was found, but for sessions that this host has begun.

    ``own`` are those of which that was known before.
    """
    own = found.own(own)
    listened = [event for event in found.subflows if event.token not in own]
    there = {event.subflow: event.token for event in listened}
    closed = [
        SubflowClosed(now, token, subflow, Ended.GONE)
        for subflow, (token, _) in known.items()
        if there.get(subflow) != token
    ]
    return [*closed, *(event for each in listened for event in _news(each, known, interface_of, now))]


def _news(found: SubflowEstablished, known: Known, interface_of: InterfaceOf, now: int) -> Iterator[Event]:
    token, backup = known.get(found.subflow, (None, False))
    if token != found.token:
        yield replace(found, interface=interface_of(found.subflow) or "")
    elif backup != found.backup:
        yield SubflowPriority(now, found.token, found.subflow, found.backup)


def traffic() -> dict[FourTuple, Traffic]:
    """The traffic of each subflow, as far as the kernel reports it."""
    found: dict[FourTuple, Traffic] = {}
    with suppress(OSError):
        found.update(each_traffic())
    return found


def each_traffic() -> Iterator[tuple[FourTuple, Traffic]]:
    """The traffic of one subflow after the other; raises OSError."""
    for each in _subflows():
        if len(each.info) >= _DELIVERY_RATE + _SENDING_TIMES.size:
            yield each.subflow, _traffic(each)


def _traffic(found: _Found) -> Traffic:
    info, flags = found.info, found.flags
    rtt, window, again = (struct.unpack_from("=I", info, offset)[0] for offset in (_RTT, _WINDOW, _SENT_AGAIN))
    acked, received = struct.unpack_from("=QQ", info, _BYTES_ACKED)
    rate, busy, by_receiver, by_buffer = _SENDING_TIMES.unpack_from(info, _DELIVERY_RATE)
    sending = busy - by_receiver - by_buffer
    made, asked = bool(flags & _BACKUP_LOCAL), bool(flags & _BACKUP_REMOTE)
    own = bool(flags & _BEGUN_LOCAL)
    return Traffic(acked, received, rtt, window, again, found.token, rate, sending, asked, made, own)


def count() -> int:
    """TCP sockets of this network namespace, MPTCP or not, all of which a scan of the subflows passes (proc(5))."""
    found = 0
    for name in ("sockstat", "sockstat6"):
        with suppress(OSError):
            words = Path("/proc/self/net", name).read_text(encoding="ascii").split()
            found += int(words[words.index("inuse", words.index("TCP:" if name == "sockstat" else "TCP6:")) + 1])
    return found


def has_unsent_data(subflow: FourTuple) -> bool:
    """Whether the kernel has a TCP socket of these addresses and ports that may have data to send."""
    family = socket.AF_INET6 if ":" in subflow.local else socket.AF_INET
    ports = [port.to_bytes(2) for port in (subflow.local_port, subflow.remote_port)]
    addresses = [socket.inet_pton(family, address) for address in (subflow.local, subflow.remote)]
    request = _REQUEST_ONE.pack(family, socket.IPPROTO_TCP, 0, 0, *ports, *addresses, 0, _ANY_COOKIE)
    try:
        return bool(_SENDING & 1 << kept(SOCK_DIAG).ask(_BY_FAMILY, request).body[1])
    except (OSError, IndexError):
        return False


def terminates_mptcp() -> bool:
    """Whether this network namespace has MPTCP sockets, listening or connected, or forwards nothing for others."""
    try:
        return any(_mptcp_sockets()) or not _forwards()
    except OSError:
        return False


def _mptcp_sockets() -> Iterator[Message]:
    # Protocol numbers above 255 go into an attribute.
    protocol = struct.pack("=HHI", 8, _PROTOCOL, IPPROTO_MPTCP)
    for family in (socket.AF_INET, socket.AF_INET6):
        yield from _dump(_REQUEST.pack(family, 0, 0, _ALIVE | _LISTENING) + protocol)


def _forwards() -> bool:
    return any(sysctl.read(f"net/{name}") == "1" for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"))


def _subflows() -> Iterator[_Found]:
    for family in (socket.AF_INET, socket.AF_INET6):
        for answer in _dump(_REQUEST.pack(family, socket.IPPROTO_TCP, _EXTENSION_INFO, _ALIVE)):
            found = _read(answer.body)
            if found is not None:
                yield found


def _read(body: bytes) -> _Found | None:
    """The MPTCP subflow in an answer, None for plain TCP and for what is not whole."""
    try:
        given = dict(attributes(body, _ANSWER.size))
        if _ULP not in given:
            return None
        mptcp = dict(attributes(dict(attributes(given[_ULP])).get(_ULP_MPTCP, b"")))
        (token,), (flags,) = (struct.unpack("=I", mptcp[each]) for each in (_TOKEN_LOCAL, _FLAGS))
        family, _, _, _, *ends = _ANSWER.unpack_from(body)
        subflow = _name(family, *ends)
        return _Found(subflow, token, flags, given.get(_INFO, b""))
    except (Malformed, KeyError, struct.error):
        return None


@lru_cache(_NAMES_KEPT)
def _name(family: int, local_port: int, remote_port: int, *addresses: bytes) -> FourTuple:
    local, remote = (
        socket.inet_ntop(socket.AF_INET, address[:4]) if family == socket.AF_INET else address6(address)
        for address in addresses
    )
    return FourTuple(local, local_port, remote, remote_port)


def _dump(request: bytes) -> Iterator[Message]:
    """The answers; raises OSError."""
    try:
        yield from kept(SOCK_DIAG).dump(_BY_FAMILY, request)
    except Interrupted as error:
        raise OSError(errno.EAGAIN, "the sockets changed while they were looked at") from error
