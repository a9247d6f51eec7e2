"""A small SQLite file, opened for each use: one that was deleted or damaged meanwhile is made again."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


class Database:
    """The file, and the statement that makes its table. Any thread may use it."""

    def __init__(self, file: Path, table: str) -> None:
        self._file, self._table = file, table
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return str(self._file)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection, whose changes are one transaction; raises sqlite3.Error and OSError.

        A file that is no database is renamed to NAME.broken, and the next use begins with an empty one.
        """
        with self._lock:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with closing(sqlite3.connect(self._file, timeout=1.0)) as connection, connection:
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute(self._table)
                    yield connection
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                with suppress(OSError):
                    self._file.rename(self._file.with_suffix(".broken"))
                raise
