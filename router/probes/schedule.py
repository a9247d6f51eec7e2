"""When each link is checked: at once when its path is new, then periodically. Pure: the caller passes the clock."""

from collections.abc import Mapping
from typing import Generic, TypeVar

PathT = TypeVar("PathT")
ResultT = TypeVar("ResultT")


class PeriodicChecks(Generic[PathT, ResultT]):
    """The paths to check and their last results, by the links' names."""

    def __init__(self) -> None:
        self.paths: dict[str, PathT] = {}
        self.results: dict[str, ResultT] = {}
        self._due: dict[str, float] = {}
        self._running: set[str] = set()

    def set_paths(self, paths: Mapping[str, PathT]) -> set[str]:
        """Checks exactly these from now on; returns and forgets the names whose path has gone or changed."""
        stale = {name for name, path in self.paths.items() if paths.get(name) != path}
        for name in stale:
            self.results.pop(name, None)
            self._due.pop(name, None)
            self._running.discard(name)
        self.paths = dict(paths)
        return stale

    @property
    def next_due(self) -> float | None:
        return min((self._due.get(each, float("-inf")) for each in self._idle()), default=None)

    def _idle(self) -> list[str]:
        return [name for name in self.paths if name not in self._running]

    def expedite(self, name: str, due: float) -> None:
        """Moves the next check of ``name`` to ``due`` at the latest."""
        if name in self._due:
            self._due[name] = min(self._due[name], due)

    def start_due(self, now: float) -> list[str]:
        """The links whose check is due; the caller starts them."""
        due = [name for name in self._idle() if self._due.get(name, float("-inf")) <= now]
        self._running |= set(due)
        return due

    def done(self, name: str, again: float) -> None:
        """Ends a check; the next one is due at ``again``."""
        if name in self._running:
            self._running.discard(name)
            self._due[name] = again
