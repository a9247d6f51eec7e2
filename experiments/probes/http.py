"""One request of HTTP/1.1 on a connection of its own, over TCP or MPTCP, to a server or through a proxy."""

import argparse
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_STALLED = 30.0  # seconds without a byte after which a request has failed
_MOST_HEAD = 65536


@dataclass(frozen=True)
class Request:
    """A GET of ``url``: through ``proxy`` (host:port), from the address ``source``, if they are given."""

    url: str
    proxy: str | None
    source: str | None
    mptcp: bool

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Give ``parser`` what of_arguments() needs."""
        parser.add_argument("url")
        parser.add_argument("--proxy", metavar="HOST:PORT", help="HTTP proxy; without it the server is asked itself")
        parser.add_argument("--source", metavar="ADDRESS", help="local address to connect from")
        parser.add_argument("--mptcp", action="store_true", help="use MPTCP")

    @classmethod
    def of_arguments(cls, arguments: argparse.Namespace) -> Self:
        """The request that a command line describes."""
        return cls(arguments.url, arguments.proxy, arguments.source, arguments.mptcp)

    def send(self) -> socket.socket:
        """The connection, once the request is on its way; raises OSError."""
        connection = self._connected()
        connection.sendall(self._text())
        return connection

    def _connected(self) -> socket.socket:
        peer = urlsplit(f"//{self.proxy}" if self.proxy else self.url)
        address = (peer.hostname, peer.port or 80)
        family = socket.AF_INET6 if ":" in (peer.hostname or "") else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP if self.mptcp else 0)
        connection.settimeout(_STALLED)
        if self.source:
            connection.bind((self.source, 0))
        connection.connect(address)
        return connection

    def _text(self) -> bytes:
        parts = urlsplit(self.url)
        target = self.url if self.proxy else parts.path
        return f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode()


def read_head(connection: socket.socket) -> tuple[int, int, bytes]:
    """The response's status, its Content-Length, and what of the body came with the head; raises EOFError."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(_MOST_HEAD)
        if not chunk or len(data) > _MOST_HEAD:
            raise EOFError("the server sent no whole head")
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return *_parse_head(head), body


def _parse_head(head: bytes) -> tuple[int, int]:
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(status_line.split()[1]), int(fields["content-length"])


def read_body(connection: socket.socket, length: int) -> Iterator[bytes]:
    """The next ``length`` bytes as they come; raises EOFError if the connection ends before."""
    while length > 0:
        chunk = connection.recv(1 << 18)
        if not chunk:
            raise EOFError(f"the connection ended {length} bytes before the end of the body")
        yield chunk
        length -= len(chunk)
