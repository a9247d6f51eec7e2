"""Probes: TCP or MPTCP connections, each through one link. What they mean, health.py and multipath.py say."""

import errno
import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from cpe.kernel.rtnetlink import family
from cpe.observed import Address
from cpe.under_way import UnderWay
from tributary.mptcp.agreed import IPPROTO_MPTCP, speaks_mptcp
from tributary.settings.hosts import Target

_ANSWERS = {0, errno.ECONNREFUSED}
"""Of SO_ERROR. A refusal is an answer, too: the path to the target works."""


@dataclass(frozen=True)
class Outcome:
    """``rtt`` in seconds; None with a reason if there was no answer. ``speaks_mptcp``: None without a connection."""

    link: str
    rtt: float | None
    reason: str = ""
    is_refused: bool = False
    speaks_mptcp: bool | None = None


@dataclass(frozen=True)
class _Attempt:
    socket: socket.socket
    began: float
    deadline: float
    reason: str = "no answer in time"


class Prober(UnderWay[_Attempt]):
    """The probes under way.

    Whether links work is asked by plain TCP: it cannot join over another link, and needs no MPTCP at the target.
    """

    def __init__(self, protocol: int = socket.IPPROTO_TCP) -> None:
        super().__init__()
        self._protocol = protocol

    def start(self, link: str, interface: str, source: Address, target: Target, now: float, timeout: float) -> None:
        """Connect from ``source`` through ``interface``; of an error at once, too, ``outcomes`` tells in time."""
        if link in self._attempts:
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
            self._selector.register(probe, selectors.EVENT_WRITE, link)
        except OSError as error:
            attempt = replace(attempt, reason=error.strerror or repr(error))
        self._attempts[link] = attempt

    def outcomes(self, now: float) -> Iterator[Outcome]:
        """Of the probes that have ended, or whose time is over."""
        for link in self._heard():
            attempt = self._attempts[link]
            code = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            speaks = speaks_mptcp(attempt.socket) if code == 0 and self._protocol == IPPROTO_MPTCP else None
            self.forget(link)
            if code in _ANSWERS:
                yield Outcome(link, now - attempt.began, is_refused=code != 0, speaks_mptcp=speaks)
            else:
                yield Outcome(link, None, os.strerror(code))
        for link in self._overdue(now):
            reason = self._attempts[link].reason
            self.forget(link)
            yield Outcome(link, None, reason)
