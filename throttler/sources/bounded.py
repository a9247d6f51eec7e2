"""A table that cannot grow: the oldest entry makes room, and entries older than a time-out go."""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """At most ``capacity`` entries, in the order in which they were put; times are in nanoseconds."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, tuple[int, V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """The value at ``key``, if there is one."""
        entry = self._entries.get(key)
        return entry[1] if entry else None

    def put(self, key: K, value: V, now: int) -> tuple[K, V] | None:
        """Set ``key`` as the newest entry; returns the entry that had to make room for it, if one had to."""
        self._entries.pop(key, None)
        full = len(self._entries) == self._capacity
        oldest = next(iter(self._entries)) if full else None
        evicted = None if oldest is None else (oldest, self._entries.pop(oldest)[1])
        self._entries[key] = (now, value)
        return evicted

    def pop(self, key: K) -> V | None:
        """Take ``key`` out; returns its value, if there was one."""
        entry = self._entries.pop(key, None)
        return entry[1] if entry else None

    def expire(self, before: int) -> list[K]:
        """Take out what was put before that time, oldest first; returns the keys."""
        gone = []
        for key, (since, _) in self._entries.items():
            if since >= before:
                break
            gone.append(key)
        for key in gone:
            del self._entries[key]
        return gone
