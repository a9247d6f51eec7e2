"""What links have carried: each second for ten minutes in memory, and in SQLite coarser for a week.

Rows are written once a minute in one transaction, so that a memory card lasts.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from console.database import Database
from tributary.api.console import History, Series
from tributary.api.documents import Link
from tributary.settings.errors import CommandError

SECONDS = 600
"""For which each second is kept."""
COARSE = {10: 86_400, 300: 7 * 86_400}
"""Seconds between two values in the file, and for how many seconds they are kept."""
_WRITE_INTERVAL = 60
_MOST_LINKS = 64
"""Others have no history: the file's size is bounded."""

SPANS = (300, SECONDS, *COARSE.values())
"""For how many seconds one may ask."""
_MOST_POINTS, _MOST_UNWRITTEN = 1000, 10_000
_TABLE = """
CREATE TABLE IF NOT EXISTS carried (
    step INTEGER, time INTEGER, link TEXT, sent REAL, received REAL, rtt REAL,
    PRIMARY KEY (step, time, link)
) WITHOUT ROWID
"""
_FIELDS = "step, time, link, sent, received, rtt"
_MEANS = """
SELECT time / :width * :width AS start, link, AVG(sent), AVG(received), AVG(rtt) FROM carried
WHERE step = :step AND time >= :start AND time <= :now GROUP BY start, link ORDER BY start
"""


class Sample(NamedTuple):
    """Of one link: bits per second, and seconds."""

    sent: float | None
    received: float | None
    rtt: float | None


_NOTHING = Sample(None, None, None)
Moment = Mapping[str, Sample]
"""Samples of one time, by the link's name."""
Row = tuple[int, int, str, float | None, float | None, float | None]
"""Of the file: step, time, link, and the fields of a sample."""


class Recorder:
    """Takes samples and answers for any time since; one thread may write while others read."""

    def __init__(self, file: Path) -> None:
        self._database = Database(file, _TABLE)
        self._lock = threading.Lock()
        self._seconds: deque[tuple[int, Moment]] = deque(maxlen=SECONDS)
        self._pending: dict[int, list[tuple[int, Moment]]] = {step: [] for step in COARSE}
        self._unwritten: list[Row] = []
        self._written = 0
        self.failure: str | None = None
        """Why nothing could be written last."""

    def add(self, links: Iterable[Link], now: float) -> None:
        """Take what ``links`` carry; ``now`` in seconds since 1970."""
        second = int(now)
        first = islice(links, _MOST_LINKS)
        moment = {link.name: Sample(link.sent_rate, link.received_rate, link.rtt) for link in first}
        with self._lock:
            if self._seconds and second - self._seconds[-1][0] > SECONDS:
                self._seconds.clear()
            if self._seconds and second <= self._seconds[-1][0]:
                self._go_back(second)
            self._seconds.append((second, moment))
            for step, pending in self._pending.items():
                if pending and pending[0][0] // step != second // step:
                    self._coarsen(step)
                pending.append((second, moment))
        if abs(second - self._written) >= _WRITE_INTERVAL:
            self._write(second)

    def _go_back(self, second: int) -> None:
        """The clock was set back: what was recorded for times to come is void."""
        while self._seconds and self._seconds[-1][0] >= second:
            self._seconds.pop()
        for pending in self._pending.values():
            pending[:] = [each for each in pending if each[0] < second]
        self._unwritten = [row for row in self._unwritten if row[1] < second]

    def _coarsen(self, step: int) -> None:
        pending = self._pending[step]
        start = pending[0][0] // step * step
        moments = [moment for _, moment in pending]
        for name, values in _by_link(moments):
            sent, received, rtt = map(_mean, values)
            self._unwritten.append((step, start, name, sent, received, rtt))
        pending.clear()

    def _write(self, now: int) -> None:
        self._written = now
        with self._lock:
            rows, self._unwritten = self._unwritten, []
            # Not while the clock may still be wrong, as after a boot.
            is_steady = len(self._seconds) == SECONDS
        try:
            with self._database.opened() as connection:
                connection.executemany(f"INSERT OR REPLACE INTO carried ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?)", rows)
                for step, kept in COARSE.items() if is_steady else ():
                    old = (step, now - kept, now)
                    connection.execute("DELETE FROM carried WHERE step = ? AND (time < ? OR time > ?)", old)
        except CommandError as error:
            self.failure = f"history: {error}"
            with self._lock:
                # What waits is bounded; the oldest goes.
                self._unwritten = [*rows, *self._unwritten][-_MOST_UNWRITTEN:]
        else:
            self.failure = None

    def close(self) -> None:
        """Write what waits."""
        if not self._seconds:
            return
        for step, pending in self._pending.items():
            if pending:
                self._coarsen(step)
        self._write(self._seconds[-1][0])

    def history(self, seconds: int, now: float) -> History:
        """The last ``seconds``, one of SPANS: of the first two each second, of the others as written, in means."""
        start = int(now) - seconds
        if seconds <= SECONDS:
            with self._lock:
                return _document(1, [each for each in self._seconds if each[0] > start])
        step = min(step for step, kept in COARSE.items() if kept >= seconds)
        width = -(-seconds // _MOST_POINTS // step) * step or step
        moments: dict[int, dict[str, Sample]] = {}
        with suppress(CommandError), self._database.opened() as connection:
            asked = {"step": step, "width": width, "start": start, "now": int(now)}
            for time, link, *values in connection.execute(_MEANS, asked):
                moments.setdefault(time, {})[link] = Sample(*values)
        return _document(width, list(moments.items()))


def _by_link(moments: Sequence[Moment]) -> Iterator[tuple[str, Iterable[tuple[float | None, ...]]]]:
    """What each link had at each of them: sent, received, round-trip times."""
    for name in dict.fromkeys(name for moment in moments for name in moment):
        yield name, zip(*(moment.get(name, _NOTHING) for moment in moments), strict=True)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 6) if known else None


def _document(step: int, moments: Sequence[tuple[int, Moment]]) -> History:
    values = _by_link([moment for _, moment in moments])
    links = {name: Series(sent=sent, received=received, rtt=rtt) for name, (sent, received, rtt) in values}
    return History(step=step, times=tuple(time for time, _ in moments), links=links)
