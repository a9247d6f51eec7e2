"""The converter's access log and what logrotate(8) has put aside of it, open as at one moment, line by line."""

import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from tributary.settings.errors import CommandError, Exit

LOG = Path("/var/log/tributary-converter/access.log")
STANDARD_INPUT = Path("-")
_TIME = re.compile(r'\{"time": ?(\d{1,12})(\.\d+)?,')
_DISORDER = 3600.0
"""Seconds by which a line may be older than one before it: two processes write during a hand-over, clocks are set."""
_BLOCK = 64 << 10
"""Bytes: of so many it is not worth while to look for the first line that counts."""
_PACKED = ".gz"
_GIVEN_UP = ".backup"
"""How logrotate names what it had packed in part when it was killed."""
_TRIES = 100
"""How often names may change while the logs are opened: logrotate changes all of them within milliseconds."""


@dataclass(frozen=True)
class Log:
    """A file that is open: it stays the same one, whatever becomes of its name."""

    path: Path
    file: BinaryIO

    def texts(self, since: float) -> Iterable[str]:
        """Its lines; of a plain file without most of those that ended before ``since``.

        Reading a damaged one, or one that is not whole, raises OSError, EOFError or zlib.error after its last line.
        """
        content: Any = self.file
        if self.path.suffix == _PACKED:
            content = gzip.GzipFile(fileobj=self.file)
        elif since and self.file.seekable():
            _skip(self.file, since)
        return TextIOWrapper(content, encoding="utf-8", errors="replace")


@contextmanager
def opened(files: Sequence[Path], since: float = 0.0) -> Iterator[Iterable[Log]]:
    """These files; without any, the log and those put aside of it that were written ``since`` then, the oldest first.

    Named files may be more than a process may have open: each is opened when it comes to it. Raises CommandError, exit
    66 for what is not there, 75 or 77.
    """
    with ExitStack() as stack:
        yield _one_by_one(files) if files else _all_of(LOG, since, stack)


def _one_by_one(files: Sequence[Path]) -> Iterator[Log]:
    for file in files:
        if file == STANDARD_INPUT:
            yield Log(file, sys.stdin.buffer)
            continue
        try:
            log = file.open("rb")
        except OSError as error:
            raise unreadable(file, error) from error
        with log:
            yield Log(file, log)


def _all_of(log: Path, since: float, stack: ExitStack) -> list[Log]:
    try:
        for _ in range(_TRIES):
            with ExitStack() as tried, suppress(FileNotFoundError):
                found = _found(log)
                chosen = sorted((each.st_mtime, file) for file, each in found.items() if each.st_mtime >= since)
                logs = [Log(file, tried.enter_context(file.open("rb"))) for _, file in chosen]
                # One that was renamed meanwhile would be there twice, or not at all.
                if _numbers(_found(log)) == _numbers(found):
                    stack.push(tried.pop_all())
                    return logs
    except OSError as error:
        raise unreadable(log, error) from error
    raise CommandError(Exit.IN_USE, f"{log}: logrotate(8) is at work: try again")


def _found(log: Path) -> dict[Path, os.stat_result]:
    """All that has bytes of its own: what is being packed is still there plain."""
    found = {}
    try:
        for file in log.parent.iterdir():
            with suppress(FileNotFoundError):
                if file.name.startswith(log.name) and file.suffix != _GIVEN_UP:
                    found[file] = file.stat()
    except FileNotFoundError:
        pass
    if not found:
        raise CommandError(Exit.NO_INPUT, f"{log}: there is none: set log.access in converter.toml")
    return {file: each for file, each in found.items() if file.suffix != _PACKED or file.with_suffix("") not in found}


def _numbers(found: dict[Path, os.stat_result]) -> dict[Path, int]:
    return {file: each.st_ino for file, each in found.items()}


def _skip(log: BinaryIO, since: float) -> None:
    """Leave ``log`` at a line before which none ended ``since`` then: lines are about in the order of their time."""
    old, end = 0, log.seek(0, os.SEEK_END)
    while end - old > _BLOCK:
        middle = (old + end) // 2
        log.seek(middle)
        log.readline()
        if ended(log.readline().decode(errors="replace")) < since - _DISORDER:
            old = middle
        else:
            end = middle
    log.seek(old)
    if old:
        log.readline()


def ended(text: str) -> float:
    """The time of a line, whole seconds since 1970, without parsing it; infinite unless it begins with that."""
    found = _TIME.match(text)
    return int(found[1]) if found else inf


def unreadable(file: Path, error: Exception) -> CommandError:
    """What to raise for a file that cannot be read, exit 66 or 77."""
    if isinstance(error, PermissionError):
        return CommandError(Exit.NO_PERMISSION, f"{file}: needs root: use sudo")
    return CommandError(Exit.NO_INPUT, f"{file}: cannot be read: {error}")
