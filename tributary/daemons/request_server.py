"""A server in the daemon's loop, with one request and one response per connection.

Connections, time, requests' size and number per turn are bounded, and nothing blocks: no client can delay the loop.
"""

import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from tributary.closing import Closing

CONNECTIONS = 16
"""Open connections at most; preferred ones have as many of their own."""
TIMEOUT = 5.0
"""Seconds for a request to arrive, and for a response to be sent."""

Respond = Callable[[bytes, socket.socket], "bytes | Future[bytes]"]
"""From a request without its terminator, and the connection it came by, to the whole response, now or later."""


class Server(Closing):
    """A listener and its connections; a context manager. A request ends with ``end`` and has at most ``most`` bytes.

    ``too_long`` is the response to one that has more. Connections for which ``prefers`` is True are counted apart, so
    that the others cannot lock them out. When all are taken, a new connection replaces the oldest one without a
    complete request. There is one descriptor for the daemon's selector, readable when there is something to do (one
    epoll(7) descriptor can watch another).
    """

    def __init__(
        self,
        listener: socket.socket,
        end: bytes,
        most: int,
        too_long: bytes,
        clock: Callable[[], float] = time.monotonic,
        prefers: Callable[[socket.socket], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self._listener = listener
        self._listener.setblocking(False)
        self._end, self._most, self._too_long = end, most, too_long
        self._prefers = prefers
        self._answered_one = False
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        # Its other end is written to when a later response is complete.
        self._woken, self._waker = socket.socketpair()
        for each in (self._woken, self._waker):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._connections: dict[socket.socket, _Connection] = {}

    def close(self) -> None:
        self._selector.close()
        for each in (*self._connections, self._listener, self._woken, self._waker):
            each.close()

    @property
    def address(self) -> tuple[str, int]:
        """The listener's address and port, if it has a port."""
        host, port, *_ = self._listener.getsockname()
        return str(host), int(port)

    def fileno(self) -> int:
        return self._selector.fileno()

    def serve(self, respond: Respond) -> bool:
        """Serve all that is ready; returns whether connections are open, which have deadlines.

        At most one request of connections that are not preferred is answered.
        """
        self._answered_one = False
        for key, _ in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                self._woken.recv(4096)
                self._take_responses()
            elif key.data in self._connections:
                self._go_on(self._connections[key.data], respond)
        now = self._clock()
        for connection in [one for one in self._connections.values() if one.deadline < now]:
            self._close(connection)
        return bool(self._connections)

    def _accept(self) -> None:
        for _ in range(CONNECTIONS):
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.setblocking(False)
            self._admit(_Connection(accepted, self._clock() + TIMEOUT, self._prefers(accepted)))

    def _admit(self, new: "_Connection") -> None:
        alike = [one for one in self._connections.values() if one.is_preferred is new.is_preferred]
        if len(alike) >= CONNECTIONS:
            silent = next((one for one in alike if one.is_silent), None)
            if silent is None:
                new.socket.close()
                return
            self._close(silent)
        self._connections[new.socket] = new
        self._selector.register(new.socket, selectors.EVENT_READ, new.socket)

    def _go_on(self, connection: "_Connection", respond: Respond) -> None:
        try:
            more = self._step(connection, respond)
        except BlockingIOError:
            more = True
        except OSError:
            more = False
        if not more:
            self._close(connection)
        elif connection.awaited is None:
            self._selector.modify(
                connection.socket, selectors.EVENT_WRITE if connection.rest else selectors.EVENT_READ, connection.socket
            )

    def _step(self, connection: "_Connection", respond: Respond) -> bool:
        """Read the request, send the response, then wait for the peer's end; returns False when done.

        The last step is that of RFC 9112 section 9.6: closing with unread bytes resets, and may lose the response.
        """
        if connection.rest is None:
            return self._read(connection, respond)
        if connection.rest:
            connection.rest = connection.rest[connection.socket.send(connection.rest) :]
            if not connection.rest:
                connection.socket.shutdown(socket.SHUT_WR)
            return True
        return bool(connection.socket.recv(65536))

    def _read(self, connection: "_Connection", respond: Respond) -> bool:
        if self._answered_one and not connection.is_preferred:
            # Its data is still there in the next turn, which follows at once.
            return True
        data = connection.socket.recv(self._most + 1 - len(connection.request))
        connection.request += data
        request, found, _ = connection.request.partition(self._end)
        if found:
            self._answered_one |= not connection.is_preferred
            self._respond(connection, respond(request, connection.socket))
        elif len(connection.request) > self._most:
            connection.rest = memoryview(self._too_long)
        return bool(data)

    def _respond(self, connection: "_Connection", response: "bytes | Future[bytes]") -> None:
        if isinstance(response, bytes):
            connection.rest, connection.deadline = memoryview(response), self._clock() + TIMEOUT
            return
        connection.awaited, connection.deadline = response, inf
        self._selector.unregister(connection.socket)
        response.add_done_callback(self._wake)

    def _wake(self, _response: "Future[bytes]") -> None:
        """Runs in the thread that made the response; a full or closed socket needs no wake-up."""
        with suppress(OSError):
            self._waker.send(b"\0")

    def _take_responses(self) -> None:
        for connection in list(self._connections.values()):
            if connection.awaited is None or not connection.awaited.done():
                continue
            response, connection.awaited = connection.awaited, None
            self._selector.register(connection.socket, selectors.EVENT_WRITE, connection.socket)
            if response.cancelled() or response.exception() is not None:
                self._close(connection)
            else:
                connection.rest, connection.deadline = memoryview(response.result()), self._clock() + TIMEOUT

    def _close(self, connection: "_Connection") -> None:
        if connection.awaited is None:
            self._selector.unregister(connection.socket)
        del self._connections[connection.socket]
        connection.socket.close()


@dataclass
class _Connection:
    """``rest`` is the unsent part of the response, None before it; ``awaited`` is a later one."""

    socket: socket.socket
    deadline: float
    is_preferred: bool
    request: bytes = b""
    rest: memoryview | None = None
    awaited: "Future[bytes] | None" = None

    @property
    def is_silent(self) -> bool:
        return self.rest is None and self.awaited is None
