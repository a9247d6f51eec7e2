"""Who has changed what, and when: a bounded table in SQLite."""

from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from console.database import Database
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


ACCESS = "access"
"""The key of a router that is enrolled or revoked: a line each, which nobody can undo."""
TO = "to"
"""The key of a by-pass: a line each, too, since nobody drags it."""
STATE = "state"
"""The key of a check of the doctor's, which was wrong: a line each, which nobody can undo."""


class Book:
    """The journal; raises CommandError, exit 71, where it cannot be read or written."""

    def __init__(self, file: Path) -> None:
        self._database = Database(file, _TABLE)
        self._last: dict[tuple[str, str], int] = {}
        """The newest line of each subject and key, unless it is that of an undo."""

    def add(self, who: str, change: Change, now: float) -> Entry | None:
        """Write a change, as a line of its own or as a later value of the subject's last line; None where that line
        goes, since all is as it was before. ``now`` in seconds since 1970.
        """
        subject = change.subject, change.key
        with self._database.opened() as connection:
            last = _entry(connection, self._last.get(subject, 0))
            if last is None or not _goes_on(last, who, now):
                entry = _added(connection, who, change, now)
                if change.key not in (ACCESS, TO, STATE):
                    self._last[subject] = entry.id
                return entry
            if last.before == change.after:
                connection.execute("DELETE FROM changes WHERE id = ?", (last.id,))
            else:
                later = (change.after, now, last.id)
                connection.execute("UPDATE changes SET after = ?, time = ? WHERE id = ?", later)
            return _entry(connection, last.id)

    def undo(self, who: str, undone: Entry, now: float) -> Entry:
        """Mark a line as undone, and write another one that says so."""
        with self._database.opened() as connection:
            connection.execute("UPDATE changes SET undone = 1 WHERE id = ?", (undone.id,))
            self._last.pop((undone.subject, undone.key), None)
            return _added(connection, who, Change(undone.subject, undone.key, undone.after, undone.before), now)

    def entry(self, number: int) -> Entry | None:
        with self._database.opened() as connection:
            return _entry(connection, number)

    def newest(self, most: int) -> tuple[Entry, ...]:
        """The newest lines, the newest first."""
        with self._database.opened() as connection:
            rows = connection.execute(f"SELECT {_FIELDS} FROM changes ORDER BY id DESC LIMIT ?", (most,))
            return tuple(map(_read, rows))


def _added(connection: Connection, who: str, change: Change, now: float) -> Entry:
    number = connection.execute(
        f"INSERT INTO changes ({_FIELDS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, 0)",
        (now, who, change.subject, change.key, change.before, change.after),
    ).lastrowid
    assert number is not None
    connection.execute("DELETE FROM changes WHERE id <= ?", (number - _KEPT,))
    entry = _entry(connection, number)
    assert entry is not None
    return entry


def _entry(connection: Connection, number: int) -> Entry | None:
    row = connection.execute(f"SELECT {_FIELDS} FROM changes WHERE id = ?", (number,)).fetchone()
    return _read(row) if row else None


def _goes_on(last: Entry, who: str, now: float) -> bool:
    return last.who == who and not last.undone and 0 <= now - last.time < _SAME_CHANGE


def _read(row: tuple[int, float, str, str, str, str | None, str | None, int]) -> Entry:
    fields = dict(zip(_FIELDS.split(", "), row, strict=True))
    return Entry.model_validate({**fields, "undone": bool(fields["undone"])})
