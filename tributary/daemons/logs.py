"""The log: one line an event on standard error, as text for people or as JSON for programs.

Names of events and fields are constants; values may be untrusted, and cannot break a line. A flood of one event does
not fill a disk: lines over the limit are counted, and the count is logged when the flood ends.
"""

import json
import math
import os
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TextIO

LINES_A_SECOND = 100
"""Per event: at most ten megabytes a minute from one event, without cutting usual logs."""

Value = str | int | float | bool | None


class Format(Enum):
    """Values of ``--log``."""

    TEXT = "text"
    JSON = "json"


def add_argument(command: ArgumentParser) -> None:
    """Add ``--log`` with the name of a Format."""
    forms = [form.value for form in Format]
    command.add_argument("--log", choices=forms, default=Format.TEXT.value, help="form of the log")


class Level(Enum):
    """Severity: its name, and its number in syslog(3)."""

    ERROR = "error", 3
    WARNING = "warning", 4
    INFO = "info", 6

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number


@dataclass(frozen=True)
class Entry:
    """One event; ``time`` in seconds since 1970."""

    time: float
    level: Level
    event: str
    fields: Mapping[str, Value]


def as_json(entry: Entry) -> str:
    """One JSON object in ASCII, hence one line whatever the values are."""
    head: dict[str, Value] = {"time": timestamp(entry.time), "level": entry.level.text, "event": entry.event}
    return json.dumps({**head, **entry.fields, **head})


def as_text(entry: Entry) -> str:
    """Time, event, fields; and the level unless it is INFO."""
    return f"{timestamp(entry.time)} {_line(entry)}"


def as_journal_text(entry: Entry) -> str:
    """As text, but journald knows the time, and takes the level from a prefix (sd-daemon(3))."""
    return f"<{entry.level.number}>{_line(entry)}"


def _line(entry: Entry) -> str:
    level = () if entry.level is Level.INFO else (f"{entry.level.text}:",)
    return " ".join((*level, entry.event, *(f"{name}={_quoted(value)}" for name, value in entry.fields.items())))


def _quoted(value: Value) -> str:
    """``value`` itself if it is plain, else in quotes with JSON's escapes; ``-`` is None."""
    if not isinstance(value, str):
        return "-" if value is None else json.dumps(value)
    if value and value != "-" and value.isprintable() and not set(' "=\\') & set(value):
        return value
    return printable(json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """``text`` on one line: control characters, and others that do not print, as ``\\x1b`` or ``\\u2028``."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds; ``seconds`` since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_journal(environment: Mapping[str, str], descriptor: int) -> bool:
    """Whether ``descriptor`` goes to journald: JOURNAL_STREAM holds its device and inode (systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class Limit:
    """At most ``most`` lines of one event per second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._windows: dict[str, tuple[int, int]] = {}

    def admits(self, event: str, now: float) -> bool:
        """Whether one more is logged at ``now`` (seconds); a suppressed one is counted."""
        second, count = self._windows.get(event, (math.floor(now), 0))
        self._windows[event] = second, count + 1
        return count < self._most

    def over(self, now: float) -> dict[str, int]:
        """The numbers suppressed, by event, in seconds that ended before ``now``; each is returned once."""
        # A clock that was set back ends a second too.
        ended = [event for event, (second, _) in self._windows.items() if not second <= now < second + 1]
        counts = {event: self._windows.pop(event)[1] - self._most for event in ended}
        return {event: count for event, count in counts.items() if count > 0}


class Log:
    """Writes events of any thread to ``stream``; ``clock`` gives seconds since 1970."""

    def __init__(
        self,
        write: Callable[[Entry], str] = as_text,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.time,
        most: int = LINES_A_SECOND,
    ) -> None:
        self._write = write
        self._stream = stream or sys.stderr
        self._clock = clock
        self._limit = Limit(most)
        self._lock = threading.RLock()

    def event(self, event: str, level: Level = Level.INFO, /, **fields: Value) -> None:
        """Log ``event``, unless its limit is reached in this second."""
        now = self._clock()
        with self._lock:
            self._log_suppressed(now)
            if self._limit.admits(event, now):
                self._put(Entry(now, level, event, fields))

    def flush(self) -> None:
        """Log what was suppressed in earlier seconds; call it regularly."""
        with self._lock:
            self._log_suppressed(self._clock())

    def close(self) -> None:
        with self._lock:
            self._log_suppressed(math.inf)

    def _log_suppressed(self, now: float) -> None:
        for event, count in self._limit.over(now).items():
            self._put(Entry(self._clock(), Level.WARNING, event, {"suppressed": count}))

    def _put(self, entry: Entry) -> None:
        # A full disk or a closed terminal must not end the daemon.
        with suppress(OSError, ValueError):
            print(self._write(entry), file=self._stream, flush=True)


def to_stderr(form: Format) -> Log:
    """The log for ``--log``."""
    if form is Format.JSON:
        return Log(as_json)
    return Log(as_journal_text if is_journal(os.environ, 2) else as_text)
