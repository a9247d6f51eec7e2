"""Probes: TCP or MPTCP connections, each through one link. What they mean, health.py and multipath.py say."""

import errno
import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic

from router.kernel.rtnetlink import family
from router.observed import Address
from router.under_way import K, UnderWay
from tributary.mptcp.info import IPPROTO_MPTCP, is_mptcp
from tributary.settings.hosts import Target

_TCP_INFO = struct.Struct("=68xI")
"""As far as tcpi_rtt, in microseconds (struct tcp_info of linux/tcp.h)."""

_ANSWERS = {0, errno.ECONNREFUSED}
"""Of SO_ERROR. A refusal is an answer, too: the path to the target works."""


@dataclass(frozen=True)
class Outcome(Generic[K]):
    """``rtt`` in seconds; None with a reason if there was no answer. ``is_mptcp``: None without a connection.

    The kernel measured it; but for a refusal, of which it is the time until that was heard here.
    """

    about: K
    rtt: float | None
    reason: str = ""
    is_refused: bool = False
    is_mptcp: bool | None = None


@dataclass(frozen=True)
class _Attempt:
    socket: socket.socket
    began: float
    deadline: float
    reason: str = "no answer in time"


class Prober(UnderWay[K, _Attempt], Generic[K]):
    """The probes under way, each with what it is ``about``.

    Whether links work is asked by plain TCP: it cannot join over another link, and needs no MPTCP at the target.
    """

    def __init__(self, protocol: int = socket.IPPROTO_TCP) -> None:
        super().__init__()
        self._protocol = protocol

    def start(self, about: K, interface: str, source: Address, target: Target, now: float, timeout: float) -> None:
        """Connect from ``source`` through ``interface``; of an error at once, too, ``outcomes`` tells in time."""
        if about in self._attempts:
            return
        probe = socket.socket(family(source), socket.SOCK_STREAM | socket.SOCK_NONBLOCK, self._protocol)
        attempt = _Attempt(probe, now, now + timeout)
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            if self._protocol == IPPROTO_MPTCP:
                # Closed at once: Linux would keep a session for a minute whose other end has more to say.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            probe.bind((str(source), 0))
            with suppress(BlockingIOError):
                probe.connect((str(target.address), target.port))
            self._selector.register(probe, selectors.EVENT_WRITE, about)
        except OSError as error:
            attempt = replace(attempt, reason=error.strerror or repr(error))
        self._attempts[about] = attempt

    def outcomes(self, now: float) -> Iterator[Outcome[K]]:
        """Of the probes that have ended, or whose time is over."""
        for about in self._heard():
            attempt = self._attempts[about]
            code = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            speaks = is_mptcp(attempt.socket) if code == 0 and self._protocol == IPPROTO_MPTCP else None
            measured = _rtt(attempt.socket) if code == 0 else None
            self.forget(about)
            if code in _ANSWERS:
                rtt = now - attempt.began if measured is None else measured
                yield Outcome(about, rtt, is_refused=code != 0, is_mptcp=speaks)
            else:
                yield Outcome(about, None, os.strerror(code))
        for about in self._overdue(now):
            reason = self._attempts[about].reason
            self.forget(about)
            yield Outcome(about, None, reason)


def _rtt(connection: socket.socket) -> float | None:
    """Seconds between SYN and SYN-ACK as the kernel measured them (tcpi_rtt of tcp(7)); None if it has not.

    Our own turns take time: an answer that has waited for one says nothing about the link.
    """
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None
    (micros,) = _TCP_INFO.unpack(info) if len(info) == _TCP_INFO.size else (0,)
    return micros / 10**6 if micros else None
