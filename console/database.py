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

        A file that is no database is renamed to NAME.broken, and the next use begins with an empty one.
        """
        with self._lock:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self._file, timeout=1.0)) as connection, connection:
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute(self._table)
                    yield connection
            except (sqlite3.Error, OSError) as error:
                if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                    with suppress(OSError):
                        self._file.rename(self._file.with_suffix(".broken"))
                raise CommandError(Exit.SYSTEM, f"{self._file} cannot be read or written: {error}") from error
