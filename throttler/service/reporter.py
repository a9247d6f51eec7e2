"""Makes reports beside the loop: the loop takes a snapshot, and a thread reads counters and writes the text.

Reading 10,000 sockets and 16,384 classes takes some tenths of a second, in which joins would wait.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from throttler.service.report import Report
from tributary.closing import Closing

BETWEEN = 0.25
"""Seconds between two snapshots at least: earlier requests wait, and share the next one."""
_SWITCH = 0.0005
"""Seconds that the thread may run on when the loop wants to run: Python runs one thread at a time."""

T = TypeVar("T")


class Reporter(Closing):
    """Answers requests; a context manager. ``take`` takes a snapshot, and returns a function that makes the report."""

    def __init__(self, take: Callable[[], Callable[[], Report]]) -> None:
        self._take = take
        self._thread = ThreadPoolExecutor(1, "reports")
        self._asked: list[tuple[Callable[[Report], Any], Future[Any]]] = []
        self._next = 0.0
        self._running: Future[None] | None = None
        sys.setswitchinterval(_SWITCH)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def ask(self, write: Callable[[Report], T]) -> Future[T]:
        """A future of what ``write`` makes of the next report, or of its exception."""
        asked = Future[T]()
        self._asked.append((write, asked))
        return asked

    def do(self, act: Callable[[], T]) -> Future[T]:
        return self._thread.submit(act)

    @property
    def deadline(self) -> float:
        """When ``turn`` is due, by time.monotonic(). The end of a report causes a turn by itself."""
        return self._next if self._asked and not self._is_busy else float("inf")

    @property
    def _is_busy(self) -> bool:
        return self._running is not None and not self._running.done()

    def turn(self) -> None:
        """Take a snapshot for waiting requests, if it is due."""
        if not self._asked or self._is_busy or time.monotonic() < self._next:
            return
        asked, self._asked = self._asked, []
        self._running = self._thread.submit(_write, self._take(), asked)
        self._next = time.monotonic() + BETWEEN


def _write(make: Callable[[], Report], asked: list[tuple[Callable[[Report], Any], Future[Any]]]) -> None:
    """Make one report for all requests, and one text for equal ones."""
    written: dict[Callable[[Report], Any], Any] = {}
    try:
        report = make()
        for write, future in asked:
            if write not in written:
                written[write] = write(report)
            future.set_result(written[write])
    except Exception as error:
        for _, future in asked:
            if not future.done():
                future.set_exception(error)
