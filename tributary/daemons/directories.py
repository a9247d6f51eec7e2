"""Where a daemon keeps things: what the service manager made for it (systemd.exec(5)), or the usual place."""

import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

RUN = Path("/run/tributary")
"""What all daemons of a machine share until a reboot; root alone writes there."""
_SO_NETNS_COOKIE = 71  # asm-generic/socket.h


def state(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """What is kept over restarts (StateDirectory=)."""
    return _given("STATE_DIRECTORY", usual, environment)


def runtime(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """What a reboot empties (RuntimeDirectory=)."""
    return _given("RUNTIME_DIRECTORY", usual, environment)


def _given(variable: str, usual: Path, environment: Mapping[str, str]) -> Path:
    # Several are separated by colons.
    first = environment.get(variable, "").split(":")[0]
    return Path(first) if first else usual


def make_run() -> None:
    """Have RUN, which everybody may look into. Raises OSError."""
    if not RUN.exists():
        RUN.mkdir(parents=True)
        RUN.chmod(0o755)  # whatever the umask is


def namespace() -> int:
    """The number of this network namespace, which no other one gets until a reboot (socket(7), SO_NETNS_COOKIE)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return int(struct.unpack("=Q", any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0])


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[int]:
    """The descriptor of a lock on the directory ``path``; who inherits it has the lock.

    Raises OSError: FileNotFoundError without the directory, BlockingIOError if somebody has the lock and this one is
    not to ``wait``.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """The descriptor of a lock on the file ``path``, made if need be and removed at the end of the block.

    A process that inherits it has the lock also after this one was killed. Raises OSError: BlockingIOError if somebody
    has the lock.
    """
    descriptor = _locked_file(path)
    try:
        yield descriptor
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked_file(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        # Who had it has removed the file since it was opened here: that lock keeps nobody out.
        os.close(descriptor)
