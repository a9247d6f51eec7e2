"""A small SQLite file, opened for each use: one that was deleted or damaged meanwhile is made again."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tributary.settings.errors import CommandError, Exit


class Database:
    """The file, and the statement that makes its table. Any thread may use it."""

    def __init__(self, file: Path, table: str) -> None:
        self._file, self._table = file, table
        self._lock = threading.Lock()

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection, whose changes are one transaction; raises CommandError, exit 71, where that cannot be.

        A file that is no database, or one whose table lacks columns, is renamed to NAME.broken, and the next use begins
        with an empty one.
        """
        with self._lock:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self._file, timeout=1.0)) as connection, connection:
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute(self._table)
                    yield connection
            except (sqlite3.Error, OSError) as error:
                line = f"{self._file} cannot be read or written: {error}"
                if _is_damage(error):
                    broken = self._file.with_suffix(".broken")
                    with suppress(OSError):
                        self._file.rename(broken)
                        line = f"{line}; it is renamed to {broken.name}"
                raise CommandError(Exit.SYSTEM, line) from error


def _is_damage(error: Exception) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        # A column or a table is missing; a lock, a full disk and the like have other codes. Text that is none has no
        # code at all: it is Python that finds it.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    return isinstance(error, sqlite3.DatabaseError)
