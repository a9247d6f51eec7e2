"""Probes: TCP or MPTCP connections, each through one link. What they mean, health.py and multipath.py say."""

import errno
import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from cpe.kernel.rtnetlink import family
from cpe.observed import Address
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
    link: str
    began: float
    deadline: float
    reason: str = "no answer in time"


class Prober:
    """The probes under way, at most one a link; a context manager, with one descriptor for all (epoll(7)).

    Whether links work is asked by plain TCP: it cannot join over another link, and needs no MPTCP at the target.
    """

    def __init__(self, protocol: int = socket.IPPROTO_TCP) -> None:
        self._protocol = protocol
        self._selector = selectors.EpollSelector()
        self._attempts: dict[socket.socket, _Attempt] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for probe in list(self._attempts):
            self._end(probe)
        self._selector.close()

    def fileno(self) -> int:
        """For selectors."""
        return self._selector.fileno()

    @property
    def next_due(self) -> float | None:
        """When the next probe's time is over."""
        return min((attempt.deadline for attempt in self._attempts.values()), default=None)

    def start(self, link: str, interface: str, source: Address, target: Target, now: float, timeout: float) -> None:
        """Connect from ``source`` through ``interface``; of an error at once, too, ``outcomes`` tells in time."""
        if any(attempt.link == link for attempt in self._attempts.values()):
            return
        probe = socket.socket(family(source), socket.SOCK_STREAM | socket.SOCK_NONBLOCK, self._protocol)
        attempt = _Attempt(link, now, now + timeout)
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            if self._protocol == IPPROTO_MPTCP:
                # Closed at once: Linux would keep a session for a minute whose other end has more to say.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            probe.bind((str(source), 0))
            with suppress(BlockingIOError):
                probe.connect((str(target.address), target.port))
            self._selector.register(probe, selectors.EVENT_WRITE, probe)
        except OSError as error:
            attempt = replace(attempt, reason=error.strerror or repr(error))
        self._attempts[probe] = attempt

    def forget(self, link: str) -> None:
        """Of the probe under way, if there is one, no outcome is told."""
        for probe in [probe for probe, attempt in self._attempts.items() if attempt.link == link]:
            self._end(probe)

    def outcomes(self, now: float) -> Iterator[Outcome]:
        """Of the probes that have ended, or whose time is over."""
        for key, _ in self._selector.select(0):
            probe: socket.socket = key.data
            code = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            speaks = speaks_mptcp(probe) if code == 0 and self._protocol == IPPROTO_MPTCP else None
            attempt = self._end(probe)
            if code in _ANSWERS:
                yield Outcome(attempt.link, now - attempt.began, is_refused=code != 0, speaks_mptcp=speaks)
            else:
                yield Outcome(attempt.link, None, os.strerror(code))
        for probe in [probe for probe, attempt in self._attempts.items() if attempt.deadline <= now]:
            attempt = self._end(probe)
            yield Outcome(attempt.link, None, attempt.reason)

    def _end(self, probe: socket.socket) -> _Attempt:
        if probe in self._selector.get_map():
            self._selector.unregister(probe)
        probe.close()
        return self._attempts.pop(probe)
