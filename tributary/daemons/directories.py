"""A daemon's directories: those of the service manager (systemd.exec(5)), or the usual ones."""

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tributary.settings.errors import CommandError, Exit

RUN = Path("/run/tributary")
"""Shared by all daemons of a machine until a reboot; only root writes there."""
_SO_NETNS_COOKIE = 71  # asm-generic/socket.h


def state(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Kept across restarts (StateDirectory=)."""
    return _given("STATE_DIRECTORY", usual, environment)


def runtime(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Emptied by a reboot (RuntimeDirectory=)."""
    return _given("RUNTIME_DIRECTORY", usual, environment)


def _given(variable: str, usual: Path, environment: Mapping[str, str]) -> Path:
    # Several are separated by colons.
    first = environment.get(variable, "").split(":")[0]
    return Path(first) if first else usual


def make_run(folder: Path | None = None) -> None:
    """Create RUN or another ``folder``, which everybody may read. Raises OSError."""
    folder = folder or RUN
    with suppress(FileExistsError):  # also if another daemon, which starts as well, was quicker
        folder.mkdir(parents=True)
        folder.chmod(0o755)  # whatever the umask is


def namespace() -> int:
    """The number of this network namespace, unique until a reboot (socket(7), SO_NETNS_COOKIE)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return int(struct.unpack("=Q", any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0])


@contextmanager
def lock_file(path: Path, wait: bool = False, taken: str = "") -> Iterator[int]:
    """The descriptor of a lock on the file ``path``, which is created if missing and removed after the block.

    A process that inherits it holds the lock even after this one was killed. Nobody else can: whoever may open a file
    may hold its lock (flock(2)), so only the owner may. Raises OSError: FileNotFoundError without the file's directory,
    BlockingIOError if the lock is taken and ``wait`` is False, PermissionError for somebody else's file. With a message
    for a lock that is ``taken``, that is a CommandError, exit 75.
    """
    try:
        descriptor = _locked_file(path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        if taken:
            raise CommandError(Exit.IN_USE, taken) from error
        raise
    try:
        yield descriptor
    finally:
        # Its folder may have gone within the block, and another one with another lock may be there.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
        os.close(descriptor)


def _locked_file(path: Path, operation: int) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, f"{path} is somebody else's")
            os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, operation)
        except OSError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        # The previous holder has removed the file since it was opened here: this lock excludes nobody.
        os.close(descriptor)
