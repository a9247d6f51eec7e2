"""One request and one response a connection, in the daemon's own loop, which nobody may hold up.

Everything is bounded: connections, time, the request's size. Nothing blocks.
"""

import selectors
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

CONNECTIONS = 16
TIMEOUT = 5.0
"""Seconds that a request may take to come, and a response to go."""

Respond = Callable[[bytes, socket.socket], bytes]
"""From a request without its terminator, and the connection it came by, to the whole response."""


class Server:
    """A listener and its connections; a context manager. A request ends with ``end`` and has at most ``most`` bytes.

    ``too_long`` is the response to one that has more. There is one descriptor for the daemon's selector: it is readable
    when there is something to do (a descriptor of epoll(7) may be watched by another one).
    """

    def __init__(
        self,
        listener: socket.socket,
        end: bytes,
        most: int,
        too_long: bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._listener = listener
        self._listener.setblocking(False)
        self._end, self._most, self._too_long = end, most, too_long
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: dict[socket.socket, _Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connection in self._connections:
            connection.close()
        self._selector.close()
        self._listener.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, of a listener that has a port."""
        host, port, *_ = self._listener.getsockname()
        return str(host), int(port)

    def fileno(self) -> int:
        """For selectors."""
        return self._selector.fileno()

    def serve(self, respond: Respond) -> bool:
        """Go on with all that is ready; returns whether connections are open, whose time has to be looked at."""
        for key, _ in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._go_on(self._connections[key.data], respond)
        now = self._clock()
        for connection in [one for one in self._connections.values() if one.deadline < now]:
            self._close(connection)
        return bool(self._connections)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        if len(self._connections) >= CONNECTIONS:
            accepted.close()
            return
        self._connections[accepted] = _Connection(accepted, self._clock() + TIMEOUT)
        self._selector.register(accepted, selectors.EVENT_READ, accepted)

    def _go_on(self, connection: "_Connection", respond: Respond) -> None:
        try:
            more = self._step(connection, respond)
        except BlockingIOError:
            more = True
        except OSError:
            more = False
        if more:
            self._selector.modify(connection.socket, connection.waits_for, connection.socket)
        else:
            self._close(connection)

    def _step(self, connection: "_Connection", respond: Respond) -> bool:
        """Read the request, send the response, then wait for the other's end; returns False when all is done.

        The last step is that of RFC 9112 section 9.6: closing with bytes unread resets the connection, and the other
        side may lose the response.
        """
        if connection.rest is None:
            data = connection.socket.recv(self._most + 1 - len(connection.request))
            connection.request += data
            request, found, _ = connection.request.partition(self._end)
            if found:
                connection.rest = memoryview(respond(request, connection.socket))
                connection.deadline = self._clock() + TIMEOUT
            elif len(connection.request) > self._most:
                connection.rest = memoryview(self._too_long)
            return bool(data)
        if connection.rest:
            connection.rest = connection.rest[connection.socket.send(connection.rest) :]
            if not connection.rest:
                connection.socket.shutdown(socket.SHUT_WR)
            return True
        return bool(connection.socket.recv(65536))

    def _close(self, connection: "_Connection") -> None:
        self._selector.unregister(connection.socket)
        del self._connections[connection.socket]
        connection.socket.close()


class _Connection:
    """``rest`` is what is left of the response, None until the request is whole."""

    def __init__(self, accepted: socket.socket, deadline: float) -> None:
        self.socket = accepted
        self.deadline = deadline
        self.request = b""
        self.rest: memoryview | None = None

    @property
    def waits_for(self) -> int:
        """Events of selectors."""
        return selectors.EVENT_WRITE if self.rest else selectors.EVENT_READ
