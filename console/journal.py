"""Who has changed what, and when: a bounded table in SQLite."""

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from tributary.api.console import Entry

_KEPT = 1000
_SAME_CHANGE = 5.0
"""Seconds between two changes of a slider that is dragged: they are one line."""

_TABLE = """
CREATE TABLE IF NOT EXISTS changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, who TEXT, subject TEXT, key TEXT,
    before TEXT, after TEXT, undone INTEGER
)
"""
_FIELDS = "id, time, who, subject, key, before, after, undone"


@dataclass(frozen=True)
class Change:
    """``key`` of ``subject``, such as the limit of ``path lte``, becomes ``after``."""

    subject: str
    key: str
    before: str | None
    after: str | None


class Book:
    """The journal; raises sqlite3.Error where it cannot be read or written. Any thread may use it."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, timeout=1.0, check_same_thread=False, isolation_level=None)
        self._database.execute(_TABLE)

    def close(self) -> None:
        self._database.close()

    def add(self, who: str, change: Change, now: float) -> Entry:
        """Write a change, as a line of its own or as a later value of the last line; ``now`` in seconds since 1970."""
        with self._lock:
            last = self._newest()
            if last is not None and _goes_on(last, who, change, now):
                self._database.execute(
                    "UPDATE changes SET after = ?, time = ? WHERE id = ?", (change.after, now, last.id)
                )
                return self._entry(last.id)
            written = self._database.execute(
                f"INSERT INTO changes ({_FIELDS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, 0)",
                (now, who, change.subject, change.key, change.before, change.after),
            ).lastrowid
            assert written is not None
            self._database.execute("DELETE FROM changes WHERE id <= ?", (written - _KEPT,))
            return self._entry(written)

    def entry(self, number: int) -> Entry | None:
        """The line of this number."""
        with self._lock:
            rows = self._database.execute(f"SELECT {_FIELDS} FROM changes WHERE id = ?", (number,)).fetchall()
        return _read(rows[0]) if rows else None

    def mark_undone(self, number: int) -> Entry:
        """The line of this number, which was undone."""
        with self._lock:
            self._database.execute("UPDATE changes SET undone = 1 WHERE id = ?", (number,))
            return self._entry(number)

    def newest(self, most: int) -> tuple[Entry, ...]:
        """The newest lines, the newest first."""
        with self._lock:
            rows = self._database.execute(f"SELECT {_FIELDS} FROM changes ORDER BY id DESC LIMIT ?", (most,))
            return tuple(map(_read, rows))

    def _newest(self) -> Entry | None:
        rows = self._database.execute(f"SELECT {_FIELDS} FROM changes ORDER BY id DESC LIMIT 1").fetchall()
        return _read(rows[0]) if rows else None

    def _entry(self, number: int) -> Entry:
        return _read(self._database.execute(f"SELECT {_FIELDS} FROM changes WHERE id = ?", (number,)).fetchone())


def _goes_on(last: Entry, who: str, change: Change, now: float) -> bool:
    is_same = (last.who, last.subject, last.key) == (who, change.subject, change.key)
    return is_same and not last.undone and 0 <= now - last.time < _SAME_CHANGE


def _read(row: tuple[int, float, str, str, str, str | None, str | None, int]) -> Entry:
    fields = dict(zip(_FIELDS.split(", "), row, strict=True))
    return Entry.model_validate({**fields, "undone": bool(fields["undone"])})
