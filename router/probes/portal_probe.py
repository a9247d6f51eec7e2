"""Requests for a web page, each through one link. portal.py interprets the responses."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from router.probes.pending import PendingSockets
from router.probes.portal import LONGEST, NOBODY, PORT, REQUEST, TIMEOUT, PortalPath
from tributary.kernel.state import family

_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Response:
    """The head of a response; empty if there was none."""

    link: str
    answer: bytes


@dataclass
class _Request:
    socket: socket.socket | None
    deadline: float
    answer: bytearray = field(default_factory=bytearray)


class PortalProbe(PendingSockets[str, _Request]):
    """The pending requests."""

    def start(self, link: str, path: PortalPath, now: float) -> None:
        """Sends a request. One that cannot be sent is reported as unanswered."""
        self.cancel(link)
        made = None
        with suppress(OSError):
            made = _connect(path)
            self._selector.register(made, selectors.EVENT_WRITE, link)
        self._pending[link] = _Request(made, now + TIMEOUT)

    def responses(self, now: float) -> Iterator[Response]:
        """The responses to requests that were answered, refused, or timed out."""
        for link in self._ready():
            if self._advance(self._pending[link], link):
                yield self._finish(link)
        for link in self._expired(now):
            yield self._finish(link)

    def _finish(self, link: str) -> Response:
        response = Response(link, bytes(self._pending[link].answer))
        self.cancel(link)
        return response

    def _advance(self, request: _Request, link: str) -> bool:
        """Continues a request whose socket is writable or readable; returns whether it has ended."""
        made = request.socket
        assert made is not None, "it is in the selector"
        try:
            if self._selector.get_key(made).events == selectors.EVENT_WRITE:
                made.sendall(REQUEST)
                self._selector.modify(made, selectors.EVENT_READ, link)
                return False
            read = made.recv(LONGEST)
        except BlockingIOError:
            return False
        except OSError:
            return True
        request.answer += read
        return not read or _END in request.answer or len(request.answer) >= LONGEST


def _connect(path: PortalPath) -> socket.socket:
    interface, source = path
    made = socket.socket(family(source), socket.SOCK_STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        made.bind((str(source), 0))
        with suppress(BlockingIOError):
            made.connect((str(NOBODY), PORT))
    except OSError:
        made.close()
        raise
    return made
