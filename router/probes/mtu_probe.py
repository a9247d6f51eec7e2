"""Pings of a given size that must not be fragmented, each through one link. mtu.py interprets the results.

Raw sockets, icmp(7): they need CAP_NET_RAW, and unlike ping sockets no kernel setting.
"""

import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from errno import EMSGSIZE

from router.probes.mtu import Path
from router.probes.pending import Attempt, PendingSockets, bound

_ECHO = struct.Struct("!BBHHH")  # RFC 792, RFC 4443 section 4.1: type, code, checksum, identifier, sequence number
_REQUEST, _REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}
_PROTOCOLS = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
_HEADERS = {4: 20, 6: 40}
_SEQUENCE = 1
# linux/in.h, linux/in6.h, linux/icmp.h; IP_PMTUDISC_PROBE: no fragments, whatever MTU the kernel has cached.
_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
_PROBE = 3
_TELL_ERRORS = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
_IPV6_DONTFRAG = 62
_SOL_RAW, _ICMP_FILTER = 255, 1
_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err of linux/errqueue.h: errno first, the MTU as ee_info
_MSG_ERRQUEUE = 0x2000


@dataclass(frozen=True)
class PingResult:
    """``rtt`` in seconds if the ping was answered, ``mtu`` in bytes if a router reported one."""

    link: str
    rtt: float | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class _Ping(Attempt):
    version: int
    identifier: int
    began: float


class MtuProbe(PendingSockets[str, _Ping]):
    """The pending pings."""

    def start(self, link: str, path: Path, size: int, timeout: float, now: float) -> None:
        """Sends a packet of ``size`` bytes with headers. A packet that cannot be sent is reported as lost."""
        self.cancel(link)
        identifier = int.from_bytes(os.urandom(2))
        made = None
        with suppress(OSError):
            made = _connected(path)
            self._selector.register(made, selectors.EVENT_READ, link)
            made.send(request(path.target.version, identifier, size))
        self._pending[link] = _Ping(made, now + timeout, path.target.version, identifier, now)

    def outcomes(self, now: float) -> Iterator[PingResult]:
        """The results of pings that were answered, reported as too large, or timed out."""
        for link in self._ready():
            ping = self._pending[link]
            assert ping.socket is not None, "it is in the selector"
            most = _too_large(ping.socket)
            is_answered = _is_answered(ping.socket, ping)
            if most is not None or is_answered:
                self.cancel(link)
                yield PingResult(link, now - ping.began if is_answered else None, most)
        for link in self._expired(now):
            self.cancel(link)
            yield PingResult(link)


def _connected(path: Path) -> socket.socket:
    """A socket that hears from the target alone; raises OSError."""
    made = bound(path.interface, path.source, socket.SOCK_RAW, _PROTOCOLS[path.target.version])
    try:
        _prepare(made, path.target.version)
        made.connect((str(path.target), 0))
    except OSError:
        made.close()
        raise
    return made


def _prepare(made: socket.socket, version: int) -> None:
    made.setsockopt(*_DISCOVER[version], _PROBE)
    made.setsockopt(*_TELL_ERRORS[version], 1)
    if version == 6:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_DONTFRAG, 1)
    else:
        # Receive echo replies only.
        made.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~(1 << _REPLY[4]) & 0xFFFFFFFF))


def request(version: int, identifier: int, size: int) -> bytes:
    """An echo request of ``size`` bytes in all; the kernel computes the checksum of ICMPv6 (RFC 3542 section 3.1)."""
    data = bytes(max(size - _HEADERS[version] - _ECHO.size, 0))
    bare = _ECHO.pack(_REQUEST[version], 0, 0, identifier, _SEQUENCE)
    checksum = _checksum(bare) if version == 4 else 0
    return _ECHO.pack(_REQUEST[version], 0, checksum, identifier, _SEQUENCE) + data


def _checksum(words: bytes) -> int:
    """RFC 1071. Zeros do not count."""
    total: int = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _too_large(made: socket.socket) -> int | None:
    """The MTU in the socket's error queue; None if there is none."""
    most: int | None = None
    with suppress(OSError):
        while True:
            _, ancillary, *_ = made.recvmsg(0, 512, _MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            for _, _, data in ancillary:
                if len(data) >= _ERROR.size:
                    number, *_, info, _ = _ERROR.unpack_from(data)
                    most = int(info) if number == EMSGSIZE else most
    return most


def _is_answered(made: socket.socket, ping: _Ping) -> bool:
    with suppress(OSError, IndexError, struct.error):
        while True:
            packet = made.recv(2048)
            # IPv4's header comes along (raw(7)), IPv6's does not.
            start = (packet[0] & 0xF) * 4 if ping.version == 4 else 0
            kind, _, _, identifier, sequence = _ECHO.unpack_from(packet, start)
            if (kind, identifier, sequence) == (_REPLY[ping.version], ping.identifier, _SEQUENCE):
                return True
    return False
