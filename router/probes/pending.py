"""Sockets that wait for answers, at most one for a key; shared by all probes."""

import selectors
import socket
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tributary.closing import Closing
from tributary.kernel.state import FAMILIES, Address


@dataclass(frozen=True)
class Attempt:
    """A pending attempt, and where its answer arrives. Without a socket only its deadline ends it."""

    socket: socket.socket | None
    deadline: float


K = TypeVar("K", bound=Hashable)
A = TypeVar("A", bound=Attempt)


def bound(interface: str, source: Address, kind: int, protocol: int) -> socket.socket:
    """A socket that does not block, and sends from ``source`` through ``interface``; raises OSError."""
    made = socket.socket(FAMILIES[source.version], kind | socket.SOCK_NONBLOCK, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        made.bind((str(source), 0))
    except OSError:
        made.close()
        raise
    return made


class PendingSockets(Closing, Generic[K, A]):
    """The attempts by key, such as the name of a link; a context manager with one descriptor for all (epoll(7))."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._pending: dict[K, A] = {}

    def close(self) -> None:
        for key in list(self._pending):
            self.cancel(key)
        self._selector.close()

    def fileno(self) -> int:
        return self._selector.fileno()

    @property
    def next_due(self) -> float | None:
        return min((attempt.deadline for attempt in self._pending.values()), default=None)

    def cancel(self, key: K) -> None:
        """Closes a pending attempt without a result."""
        attempt = self._pending.pop(key, None)
        if attempt and attempt.socket:
            if attempt.socket in self._selector.get_map():
                self._selector.unregister(attempt.socket)
            attempt.socket.close()

    def _ready(self) -> list[K]:
        return [key.data for key, _ in self._selector.select(0)]

    def _expired(self, now: float) -> list[K]:
        return [key for key, attempt in self._pending.items() if attempt.deadline <= now]
