"""HTTP for Prometheus, in the daemon's own loop: ``GET /metrics`` and nothing else.

Not http.server in a thread: that one waits for a silent client for ever, or takes a thread for each, and the document
would have to be copied for it.
"""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from tributary.closing import Closing
from tributary.daemons.listener import listener
from tributary.daemons.logs import Level, Log
from tributary.daemons.loop import Loop
from tributary.daemons.request_server import CONNECTIONS, Server
from tributary.settings.errors import CommandError
from tributary.settings.hosts import Target

_HEAD = 8192
"""Bytes of a request's line and fields; Prometheus sends some 300."""
_END = b"\r\n\r\n"
_TEXT = "text/plain; charset=utf-8"
_PAGE = "text/plain; version=0.0.4; charset=utf-8"

Page = Callable[[], bytes]


def answer(head: bytes, page: Page, log: Log) -> bytes:
    """As ``respond``, but a page that cannot be made does not end the daemon: that is logged."""
    try:
        return respond(head, page)
    except Exception as error:
        log.event("metrics failed", Level.ERROR, reason=repr(error))
        return _response("500 Internal Server Error")


def respond(head: bytes, page: Page) -> bytes:
    """The whole response to a request whose head (without the empty line) is ``head``; raises what ``page`` does."""
    if (refused := refusal(head)) is not None:
        return refused
    response = _response("200 OK", page(), _PAGE)
    return response if head.startswith(b"GET ") else response.partition(_END)[0] + _END


def refusal(head: bytes) -> bytes | None:
    """The response to a request that is not one for the page, None if it is."""
    try:
        method, target, version = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        path = urlsplit(target).path  # a server takes the absolute form too (RFC 9112 section 3.2.2)
    except ValueError:
        return _response("400 Bad Request")
    if not version.startswith("HTTP/1."):
        return _response("505 HTTP Version Not Supported")
    if path != "/metrics":
        return _response("404 Not Found")
    if method not in ("GET", "HEAD"):
        return _response("405 Method Not Allowed", fields="Allow: GET, HEAD\r\n")
    return None


def _response(status: str, body: bytes = b"", kind: str = _TEXT, fields: str = "") -> bytes:
    body = body or f"{status}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{fields}Connection: close"
    return head.encode("ascii") + _END + body


def server(where: Target, clock: Callable[[], float] = time.monotonic) -> Server:
    """The daemon's listener; raises CommandError, exit 75, if the port is taken."""
    address = str(where.address)
    made = listener(address, where.port, CONNECTIONS, is_dual=address == "::", of=" for metrics")
    return Server(made, _END, _HEAD, _response("431 Request Header Fields Too Large"), clock)


class MovingServer(Closing):
    """A listener in ``loop`` whose address the settings may change. A daemon without metrics is better than none.

    ``load`` gives what makes the page, and loads what that needs: before it listens, and not while a scrape waits.
    """

    def __init__(self, loop: Loop, load: Callable[[], Page], log: Log) -> None:
        self._loop, self._load, self._log = loop, load, log
        self._address: Target | None = None
        self._server: Server | None = None

    def listen(self, address: Target | None) -> None:
        """Listen there from now on, None: nowhere; logs why it cannot."""
        if address == self._address:
            return
        self.close()
        if address is None:
            return
        try:
            self._server = server(address)
        except CommandError as failure:
            self._log.event("metrics not served", Level.ERROR, reason=str(failure))
            return
        page = self._load()
        self._loop.serve(self._server, lambda head, _: answer(head, page, self._log))
        self._address = address

    def close(self) -> None:
        if self._server is not None:
            self._loop.leave(self._server)
            self._server.close()
        self._server = self._address = None
