"""The control socket: ``throttler status`` asks the daemon, and no second daemon starts in a network namespace.

An abstract Unix socket belongs to its network namespace and goes with its process (unix(7)), so nothing is left to
clean up. Who connects gets the status as one JSON document and the end of the stream.
"""

import errno
import json
import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from settings.failure import Exit, Failure

_NAME = "\0tributary/throttler"
_CONNECTIONS = 16
_PATIENCE = 5.0
"""Seconds that a reader may take."""


class Server:
    """The daemon's end; a context manager. Its sockets do not block: a reader that stalls is dropped."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._listener.bind(_NAME)
        except OSError as error:
            self._listener.close()
            if error.errno == errno.EADDRINUSE:
                raise Failure(Exit.IN_USE, "a throttler already runs in this network namespace") from error
            raise Failure(Exit.SYSTEM, f"cannot bind the control socket: {error}") from error
        self._listener.listen(_CONNECTIONS)
        self._replies: list[Reply] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for reply in self._replies:
            reply.connection.close()
        self._listener.close()

    def fileno(self) -> int:
        """For selectors."""
        return self._listener.fileno()

    def accept(self, status: Callable[[], dict[str, Any]]) -> None:
        """Take one connection, if there is one, and start to answer it."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        if len(self._replies) < _CONNECTIONS:
            self._replies.append(Reply(connection, json.dumps(status()).encode()))
        else:
            connection.close()

    def send(self) -> bool:
        """Go on with all answers; returns whether some are not complete yet."""
        self._replies = [reply for reply in self._replies if reply.send()]
        return bool(self._replies)


class Reply:
    """One answer on its way."""

    def __init__(self, connection: socket.socket, data: bytes) -> None:
        self.connection = connection
        self._rest = memoryview(data)
        self._deadline = time.monotonic() + _PATIENCE

    def send(self) -> bool:
        """Send what fits; returns False when the answer is complete, or in vain, and its connection closed."""
        try:
            self._rest = self._rest[self.connection.send(self._rest) :]
        except BlockingIOError:
            if time.monotonic() < self._deadline:
                return True
            self._rest = self._rest[:0]
        except OSError:
            self._rest = self._rest[:0]
        if not self._rest:
            self.connection.close()
        return bool(self._rest)


def ask() -> dict[str, Any]:
    """The status of this network namespace's daemon; raises Failure, exit 69, if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(_NAME)
            _need_root_behind(connection)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            status: dict[str, Any] = json.loads(answer)
        except ConnectionRefusedError as error:
            raise Failure(Exit.UNAVAILABLE, "no throttler runs in this network namespace") from error
        except (OSError, ValueError) as error:
            raise Failure(Exit.UNAVAILABLE, f"the throttler does not answer: {error}") from error
    return status


def _need_root_behind(connection: socket.socket) -> None:
    # Anybody can bind an abstract name that is free.
    _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != 0:
        raise Failure(Exit.UNAVAILABLE, f"the throttler's socket belongs to user {user}, not to root: not asking it")
