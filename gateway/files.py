"""Private files, which are replaced atomically, and a lock for their one writer."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tributary.settings.errors import CommandError, Exit


def write_atomic(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` atomically; raises CommandError, exit 71."""
    new = path.with_suffix(".new")
    try:
        private_folder(path.parent)
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error


def unlink(path: Path) -> None:
    """Remove ``path``, if it is there; raises CommandError, exit 71."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be removed: {error.strerror}") from error


def private_folder(path: Path) -> None:
    """Make the folder ``path`` unless it is there; raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on ``folder``, for which other commands wait; raises CommandError, exit
    71.
    """
    try:
        private_folder(folder)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
