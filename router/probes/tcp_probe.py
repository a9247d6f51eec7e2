"""TCP or MPTCP connections as probes, each through one link. links/health.py and mptcp.py interpret the results."""

import errno
import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic

from router.probes.pending import Attempt, K, PendingSockets
from tributary.kernel.state import FAMILIES, Address
from tributary.mptcp.info import IPPROTO_MPTCP, is_mptcp
from tributary.settings.hosts import Target

_TCP_INFO = struct.Struct("=68xI")
"""As far as tcpi_rtt, in microseconds (struct tcp_info of linux/tcp.h)."""

_ANSWERS = {0, errno.ECONNREFUSED}
"""Of SO_ERROR. A refusal is an answer, too: the path to the target works."""


@dataclass(frozen=True)
class Outcome(Generic[K]):
    """``rtt`` in seconds; None with a reason if there was no answer. ``is_mptcp`` is None without a connection.

    The kernel measures the round-trip time; for a refusal it is the time until the refusal was read here.
    """

    key: K
    rtt: float | None
    reason: str = ""
    is_refused: bool = False
    is_mptcp: bool | None = None


@dataclass(frozen=True)
class _Probe(Attempt):
    socket: socket.socket
    began: float
    reason: str = "no answer in time"


class TcpProbe(PendingSockets[K, _Probe], Generic[K]):
    """The pending probes by ``key``.

    Plain TCP tells whether a link works: it cannot join over another link, and needs no MPTCP at the target.
    """

    def __init__(self, protocol: int = socket.IPPROTO_TCP) -> None:
        super().__init__()
        self._protocol = protocol

    def start(self, key: K, interface: str, source: Address, target: Target, now: float, timeout: float) -> None:
        """Connects from ``source`` through ``interface``. ``outcomes`` has an immediate error, too, at the deadline."""
        if key in self._pending:
            return
        probe = socket.socket(FAMILIES[source.version], socket.SOCK_STREAM | socket.SOCK_NONBLOCK, self._protocol)
        attempt = _Probe(probe, now + timeout, now)
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            if self._protocol == IPPROTO_MPTCP:
                # Reset at close: Linux would keep the session for a minute if the peer does not close.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            probe.bind((str(source), 0))
            with suppress(BlockingIOError):
                probe.connect((str(target.address), target.port))
            self._selector.register(probe, selectors.EVENT_WRITE, key)
        except OSError as error:
            attempt = replace(attempt, reason=error.strerror or repr(error))
        self._pending[key] = attempt

    def outcomes(self, now: float) -> Iterator[Outcome[K]]:
        """The results of probes that have ended or timed out."""
        for key in self._ready():
            attempt = self._pending[key]
            code = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            speaks = is_mptcp(attempt.socket) if code == 0 and self._protocol == IPPROTO_MPTCP else None
            measured = _rtt(attempt.socket) if code == 0 else None
            self.cancel(key)
            if code in _ANSWERS:
                rtt = now - attempt.began if measured is None else measured
                yield Outcome(key, rtt, is_refused=code != 0, is_mptcp=speaks)
            else:
                yield Outcome(key, None, os.strerror(code))
        for key in self._expired(now):
            reason = self._pending[key].reason
            self.cancel(key)
            yield Outcome(key, None, reason)


def _rtt(connection: socket.socket) -> float | None:
    """Seconds between SYN and SYN-ACK as the kernel measured them (tcpi_rtt of tcp(7)); None if it has not.

    The loop has other work: the time at which it reads an answer says little about the link.
    """
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None
    (micros,) = _TCP_INFO.unpack(info) if len(info) == _TCP_INFO.size else (0,)
    return micros / 10**6 if micros else None
