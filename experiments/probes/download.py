"""Downloads a URL over TCP or MPTCP and tells what came by which subflow, as the kernel counts it.

One JSON object a line: a sample at short intervals, as long as bytes come, then the result.

    sample  {"at": SECONDS, "bytes": BODY, "subflows": [{"local", "remote", "received"}], "wire": {INTERFACE: BYTES},
             "waiting": BYTES or null}
    result  the same, with "started" (Unix time), "status", and "sha256" of the body, as far as it came

"received" counts payload bytes of the subflow, "wire" all bytes of frames that came in by the interface. "waiting" is
the memory that the socket takes for what came out of order (SK_MEMINFO_RMEM_ALLOC): the mean since the sample before of
the times when all that is in order had been read, null if there was none. On SIGTERM the download breaks off, without a
result.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import signal
import socket
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from experiments.probes.subflows import subflows_of

_STALLED = 30.0  # seconds without a byte after which a request has failed
_MOST_HEAD = 65536
_SO_MEMINFO = 55  # asm-generic/socket.h
_libc = ctypes.CDLL(None)


def main() -> None:
    """Download as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--proxy", metavar="HOST:PORT", help="HTTP proxy; without it the server is asked itself")
    parser.add_argument("--source", metavar="ADDRESS", help="local address to connect from")
    parser.add_argument("--mptcp", action="store_true", help="use MPTCP")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="break the download off after these")
    parser.add_argument("--every", type=float, default=0.1, metavar="SECONDS", help="between samples (default: 0.1)")
    parser.add_argument("--interface", action="append", default=[], help="count the bytes of this interface as well")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with Request(arguments.url, arguments.proxy, arguments.source, arguments.mptcp).send() as connection:
        whole = False
        try:
            whole = _receive(connection, arguments)
        finally:
            if not whole:
                break_off(connection)


def _receive(connection: socket.socket, arguments: argparse.Namespace) -> bool:
    """Whether the whole body came."""
    start = time.monotonic()
    started = time.time()
    before = {name: _wire_bytes(name) for name in arguments.interface}

    def sample() -> dict[str, object]:
        wire = {name: _wire_bytes(name) - before[name] for name in before}
        subflows = [asdict(subflow) for subflow in subflows_of(connection)]
        known = {"at": round(time.monotonic() - start, 6), "bytes": received, "subflows": subflows, "wire": wire}
        told = known | {"waiting": fmean(waiting) if waiting else None}
        waiting.clear()
        return told

    status, length, body = read_head(connection)
    digest, waiting = hashlib.sha256(body), list[int]()
    next_sample = start
    received = len(body)
    for chunk in read_body(connection, length - len(body)):
        digest.update(chunk)
        received += len(chunk)
        if not _unread(connection):
            waiting.append(_waiting(connection))
        now = time.monotonic()
        if now >= next_sample:
            next_sample = now + arguments.every
            _print(sample())
        if now >= start + arguments.seconds:
            break
    result = {"started": started, "status": status, "sha256": digest.hexdigest()}
    _print(sample() | result)
    return received == length


def _unread(connection: socket.socket) -> int:
    return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)


def _waiting(connection: socket.socket) -> int:
    # linux/sock_diag.h: numbers of 32 bits, SK_MEMINFO_RMEM_ALLOC the first.
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4), sys.byteorder)


def _wire_bytes(interface: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics/rx_bytes").read_text())


def _print(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


@dataclass(frozen=True)
class Request:
    """A GET of ``url``: through ``proxy`` (host:port), from the address ``source``, if they are given."""

    url: str
    proxy: str | None
    source: str | None
    mptcp: bool

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


def break_off(connection: socket.socket) -> None:
    """Drop ``connection`` with all that is on its way; the peer gets a reset, of all subflows.

    A close would not do: the kernel says goodbye in order when nothing is unread at that moment, and the peer of an
    MPTCP session may then go on sending for a while.
    """
    # connect(2): AF_UNSPEC dissolves the association.
    _libc.connect(connection.fileno(), bytes(16), 16)


if __name__ == "__main__":
    main()
