"""Sockets that wait for answers, at most one for a key: what probes, pings and questions for pages have in common."""

import selectors
import socket
from collections.abc import Hashable
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar


class Attempt(Protocol):
    """One that is under way: without a socket, or with one that is not watched, only its time can end it."""

    @property
    def socket(self) -> socket.socket | None:
        """Where the answer comes."""

    @property
    def deadline(self) -> float:
        """When its time is over."""


K = TypeVar("K", bound=Hashable)
A = TypeVar("A", bound=Attempt)


class UnderWay(Generic[K, A]):
    """The attempts by their keys, such as links' names; a context manager, with one descriptor for all (epoll(7))."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._attempts: dict[K, A] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for key in list(self._attempts):
            self.forget(key)
        self._selector.close()

    def fileno(self) -> int:
        """For selectors."""
        return self._selector.fileno()

    @property
    def next_due(self) -> float | None:
        """When the time of the next attempt is over."""
        return min((attempt.deadline for attempt in self._attempts.values()), default=None)

    def forget(self, key: K) -> None:
        """Of the attempt under way, if there is one, nothing is told."""
        attempt = self._attempts.pop(key, None)
        if attempt and attempt.socket:
            if attempt.socket in self._selector.get_map():
                self._selector.unregister(attempt.socket)
            attempt.socket.close()

    def _heard(self) -> list[K]:
        """The keys whose sockets have something to tell."""
        return [key.data for key, _ in self._selector.select(0)]

    def _overdue(self, now: float) -> list[K]:
        """The keys whose time is over."""
        return [key for key, attempt in self._attempts.items() if attempt.deadline <= now]
