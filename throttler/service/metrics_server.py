"""HTTP for Prometheus, in the daemon's own loop: ``GET /metrics`` and nothing else.

Not http.server in a thread: that one waits for a silent client for ever, or takes a thread for each, and the document
would have to be copied for it.
"""

import errno
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from tributary.daemons.request_server import CONNECTIONS, Server
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.hosts import host_and_port

_HEAD = 8192
"""Bytes of a request's line and fields; Prometheus sends some 300."""
_END = b"\r\n\r\n"
_TEXT = "text/plain; charset=utf-8"
_PAGE = "text/plain; version=0.0.4; charset=utf-8"

Page = Callable[[], bytes]


def listen_address(text: str) -> tuple[str, int]:
    """Address and port of ``192.0.2.1:9464`` or ``[2001:db8::1]:9464``; raises CommandError, exit 64."""
    try:
        host, port = host_and_port(text)
        return str(ip_address(host)), port
    except ValueError as error:
        accepted = "an address and a port from 1 to 65535, such as '127.0.0.1:9464' or '[::1]:9464'"
        raise invalid_value("command line", "--metrics", text, accepted) from error


def respond(head: bytes, page: Page) -> bytes:
    """The whole response to a request whose head (without the empty line) is ``head``; raises what ``page`` does."""
    method = head.split(b" ", 1)[0]
    if (refused := refusal(head)) is not None:
        return refused
    response = _response("200 OK", page(), _PAGE)
    return response if method == b"GET" else response.partition(_END)[0] + _END


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


def server(address: str, port: int, clock: Callable[[], float] = time.monotonic) -> Server:
    """The daemon's listener; raises CommandError, exit 75, if the port is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server(
            (address, port), family=family, backlog=CONNECTIONS, dualstack_ipv6=address == "::"
        )
    except OSError as error:
        code = Exit.IN_USE if error.errno == errno.EADDRINUSE else Exit.SYSTEM
        raise CommandError(code, f"cannot listen for metrics on {address} port {port}: {error}") from error
    return Server(listener, _END, _HEAD, _response("431 Request Header Fields Too Large"), clock)


def failed() -> bytes:
    """The response when the page could not be made."""
    return _response("500 Internal Server Error")
