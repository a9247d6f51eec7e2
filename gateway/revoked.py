"""Keys that were revoked, or replaced by a rotation: a copy of a router's file gives them no access again."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tributary.daemons.state_file import StateFile, document_of
from tributary.settings.errors import CommandError

_MOST = 10_000
"""Entries of half a kilobyte; the oldest go."""


@dataclass(frozen=True)
class Entry:
    """The keys that a router lost on a day."""

    router: str
    day: str
    keys: list[str]


_READ = document_of(list[Entry])


@dataclass(frozen=True)
class RevokedKeys:
    """They are in the file ``path``, an entry for each time."""

    path: Path

    def days(self) -> Mapping[str, str]:
        """When it was, by the key; raises CommandError, exit 71 for a damaged file, 77."""
        entries = StateFile(self.path).read(_READ) or []
        return {key: entry.day for entry in entries for key in entry.keys}

    @property
    def lost(self) -> str:
        """What is not known any more: a damaged list makes room for the next entry."""
        broken = StateFile(self.path).broken
        text = f"{broken}: what it has is not refused: add it to {self.path.name}, or remove it"
        return text if broken.exists() else ""

    def add(self, keys: Mapping[str, Collection[str]]) -> list[str]:
        """Add the keys of routers, by their names; returns what failed: they have to be out also where nothing can be
        written.
        """
        notes: list[str] = []
        file = StateFile(self.path)
        entries = file.read(_READ, notes.append) or []
        known, day = {key for entry in entries for key in entry.keys}, datetime.now(UTC).date().isoformat()
        new = [Entry(router, day, sorted(own)) for router, each in keys.items() if (own := {*each} - known)]
        if not new:
            return notes
        try:
            file.replace([*entries, *new][-_MOST:])
        except CommandError as failure:
            notes += [f"{entry.router}: a copy of its file would let it in again: {failure}" for entry in new]
        return notes
