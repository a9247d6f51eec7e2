"""Reads the overlay every few seconds for ``tributary`` and the console of this machine."""

import json
import resource
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from math import inf

from overlay.reader import reading
from tributary.api.parts import Overlay
from tributary.api.places import OVERLAY
from tributary.daemons import metrics_server
from tributary.daemons.control import Request, Response
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Loop
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import Target

INTERVAL = 3.0
"""Seconds between two readings."""
REST = 10.0
"""A reading begins no sooner after the last one than so many times the processor time which that took here."""
_TIMEOUT = 20.0


def serve(command: Sequence[str], metrics: Target | None, log: Log) -> None:
    """Answer until SIGTERM or SIGINT by what ``command`` prints, at ``metrics`` Prometheus too.

    Raises CommandError, exit 75 if another one does, or the port is taken; exit 64 if ``command`` is wrong.
    """
    with ExitStack() as stack:
        loop = stack.enter_context(Loop(log))
        reader = Reader(command, stack.enter_context(ThreadPoolExecutor(1, "reads")), log)
        loop.answer(OVERLAY, reader.answer)
        if metrics:
            figures = stack.enter_context(metrics_server.server(metrics))
            # Not at the top: nothing else needs the library.
            from overlay.reader.metrics import page

            loop.serve(figures, lambda head, _: metrics_server.answer(head, lambda: page(reader.document), log))
        loop.run(reader)


class Reader:
    """What the loop runs: a thread reads, and requests are answered by the last reading."""

    status = "reads the overlay"

    def __init__(self, command: Sequence[str], thread: ThreadPoolExecutor, log: Log) -> None:
        self._command, self._thread, self._log = command, thread, log
        self._started = self._due = time.monotonic()
        self._reading: Future[tuple[Overlay, frozenset[str]]] | None = None
        self._took = 0.0
        self._read_at: float | None = None
        self._last, self._names = reading.NOTHING, frozenset[str]()
        self._problem: str | None = None

    @property
    def deadline(self) -> float:
        """When the next reading is due; while one is under way, the loop's own turns see its end."""
        return inf if self._reading else self._due

    def turn(self) -> None:
        """Take a reading that is there, and begin the next one when it is due; raises CommandError, exit 64."""
        now = time.monotonic()
        if self._reading is not None and self._reading.done():
            self._take(now, self._reading)
            self._reading = None
            self._due += max(0.0, REST * self._took - INTERVAL)
        if self._reading is None and now >= self._due:
            self._reading = self._thread.submit(self._read)
            self._due = now + INTERVAL

    def reload(self) -> None:
        """There are no settings."""

    def answer(self, _asked: Request) -> Response:
        return self.document.model_dump(mode="json")

    @property
    def document(self) -> Overlay:
        now = time.monotonic()
        age = None if self._read_at is None else round(now - self._read_at, 3)
        computed = self._last.computed
        known = {
            "uptime": round(now - self._started, 3),
            "age": age,
            "problem": self._problem,
            "computed": None if computed is None or age is None else round(computed + age, 3),
        }
        return self._last.model_copy(update=known)

    def _read(self) -> tuple[Overlay, frozenset[str]]:
        begun = _processor_time()
        try:
            return _read(self._command, self._last, self._names)
        finally:
            self._took = _processor_time() - begun

    def _take(self, now: float, read: "Future[tuple[Overlay, frozenset[str]]]") -> None:
        problem = None
        try:
            (self._last, self._names), self._read_at = read.result(), now
        except CommandError:
            raise
        except (OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        except Exception as error:
            # Whatever the answer has in it: one reading does not end the reader.
            problem = f"cannot be understood: {error!r}"
        if problem is not None and problem != self._problem:
            self._log.event("not read", Level.WARNING, error=problem)
        self._problem = problem


def _processor_time() -> float:
    """Seconds, of this thread and of all programs that have ended."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return programs.ru_utime + programs.ru_stime + time.thread_time()


def _read(command: Sequence[str], before: Overlay, known: frozenset[str]) -> tuple[Overlay, frozenset[str]]:
    """The overlay, and the names of all nodes that are or were there.

    Raises CommandError for arguments that the program refuses, OSError if it fails otherwise."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    reason = done.stderr.strip() or f"exit code {done.returncode}"
    if done.returncode == Exit.USAGE:
        raise CommandError(Exit.USAGE, reason)
    if done.returncode != 0:
        raise OSError(reason)
    status = json.loads(done.stdout)
    return reading.overlay(status, before, known), reading.names(status, known)
