"""A bounded table that no single owner can fill: the owner with the most entries makes room."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MIN_SHARE = 64
"""Entries that an owner may have in a full table before its own are evicted first.

Without it a flood from very many addresses, one entry each, would evict every client with two connections.
"""


class FairLru(Generic[K, V]):
    """At most ``capacity`` entries, ``share`` of one owner, in insertion order.

    Times are in nanoseconds. Every operation takes the same time however many entries there are.
    """

    def __init__(self, capacity: int, share: int | None = None) -> None:
        self._capacity = capacity
        self._share = share or capacity
        # A plain dict scans all deleted slots for its first entry.
        self._entries: OrderedDict[K, tuple[int, Hashable, V]] = OrderedDict()
        self._owners: _Owners[K] = _Owners()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return entry[2] if entry else None

    def put(self, key: K, value: V, now: int, owner: Hashable = None) -> tuple[K, V] | None:
        """Set ``key`` as the newest entry; returns the evicted entry, if any."""
        self.pop(key)
        evicted = self._make_room(owner)
        self._entries[key] = (now, owner, value)
        self._owners.add(owner, key)
        return evicted

    def _make_room(self, owner: Hashable) -> tuple[K, V] | None:
        if self._owners.count(owner) >= self._share:
            oldest = self._owners.oldest(owner)
        elif len(self._entries) < self._capacity:
            return None
        elif self._owners.most > MIN_SHARE:
            oldest = self._owners.oldest(self._owners.greatest())
        else:
            oldest = next(iter(self._entries))
        _, its_owner, value = self._entries.pop(oldest)
        self._owners.remove(its_owner, oldest)
        return oldest, value

    def pop(self, key: K) -> V | None:
        """Remove ``key``; returns its value, if any."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        _, owner, value = entry
        self._owners.remove(owner, key)
        return value

    def expire(self, before: int) -> list[K]:
        """Remove entries older than that time, oldest first; returns the keys."""
        gone = []
        for key, (since, _, _) in self._entries.items():
            if since >= before:
                break
            gone.append(key)
        for key in gone:
            self.pop(key)
        return gone


class _Owners(Generic[K]):
    """The keys of each owner, oldest first; ``most`` is how many the greatest has."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, OrderedDict[K, None]] = {}
        self._by_count: dict[int, dict[Hashable, None]] = {}
        self.most = 0

    def count(self, owner: Hashable) -> int:
        return len(self._keys.get(owner, ()))

    def oldest(self, owner: Hashable) -> K:
        return next(iter(self._keys[owner]))

    def greatest(self) -> Hashable:
        return next(iter(self._by_count[self.most]))

    def add(self, owner: Hashable, key: K) -> None:
        keys = self._keys.setdefault(owner, OrderedDict())
        keys[key] = None
        self._move(owner, len(keys) - 1, len(keys))

    def remove(self, owner: Hashable, key: K) -> None:
        keys = self._keys[owner]
        del keys[key]
        if not keys:
            del self._keys[owner]
        self._move(owner, len(keys) + 1, len(keys))

    def _move(self, owner: Hashable, old: int, new: int) -> None:
        if old:
            peers = self._by_count[old]
            del peers[owner]
            if not peers:
                del self._by_count[old]
        if new:
            self._by_count.setdefault(new, {})[owner] = None
        # Counts change by one: if no owner has as many any more, this owner is the greatest.
        if new > self.most or (old == self.most and old not in self._by_count):
            self.most = new
