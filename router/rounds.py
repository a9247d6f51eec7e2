"""When each link is examined: at once when its way is new, then again and again; and what was found.

Pure: the clock is the caller's.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

Way = TypeVar("Way")
Found = TypeVar("Found")


class Rounds(Generic[Way, Found]):
    """The ways of links and what is ``found`` so far, by the links' names; when the next round of each is due."""

    def __init__(self) -> None:
        self.ways: dict[str, Way] = {}
        self.found: dict[str, Found] = {}
        self._due: dict[str, float] = {}
        self._under_way: set[str] = set()

    def keep(self, ways: Mapping[str, Way]) -> set[str]:
        """From now on exactly these are examined; returns those that are gone, or lead another way now: forgotten."""
        stale = {name for name, way in self.ways.items() if ways.get(name) != way}
        for name in stale:
            self.found.pop(name, None)
            self._due.pop(name, None)
            self._under_way.discard(name)
        self.ways = dict(ways)
        return stale

    def way(self, name: str) -> Way | None:
        """The one of this name."""
        return self.ways.get(name)

    @property
    def next_due(self) -> float | None:
        """When the next round is due."""
        return min((self._due.get(each, float("-inf")) for each in self._waiting()), default=None)

    def _waiting(self) -> list[str]:
        return [name for name in self.ways if name not in self._under_way]

    def hurry(self, name: str, due: float) -> None:
        """The next round is due then at the latest."""
        if name in self._due:
            self._due[name] = min(self._due[name], due)

    def begin(self, now: float) -> list[str]:
        """The links whose rounds are due, which the caller now begins."""
        due = [name for name in self._waiting() if self._due.get(name, float("-inf")) <= now]
        self._under_way |= set(due)
        return due

    def is_under_way(self, name: str) -> bool:
        """Whether a round of a link has begun and not ended."""
        return name in self._under_way

    def ended(self, name: str, again: float) -> None:
        """A round is over; the next one is due at ``again``."""
        if name in self._under_way:
            self._under_way.discard(name)
            self._due[name] = again
