"""Downloads a URL over TCP or MPTCP and tells what came by which subflow, as the kernel counts it.

One JSON object a line: a sample at short intervals, as long as bytes come, then the result.

    sample  {"at": SECONDS, "bytes": BODY, "subflows": [{"local", "remote", "received"}], "wire": {INTERFACE: BYTES},
             "waiting": BYTES or null}
    result  the same, with "started" (Unix time), "status", and "sha256" of the body, as far as it came

"received" counts payload bytes of the subflow, "wire" all bytes of frames that came in by the interface. "waiting" is
the memory that the socket takes for what came out of order (SK_MEMINFO_RMEM_ALLOC): the mean since the sample before of
the times when all that is in order had been read, null if there was none. With --seconds it breaks off in time
though nothing comes. On SIGTERM the download breaks off, without a result.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http.client import HTTPResponse
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import traffic

_STALLED = 30.0  # seconds without a byte after which a request has failed
_SO_MEMINFO = 55  # asm-generic/socket.h
_libc = ctypes.CDLL(None)
_SOL_MPTCP, _MPTCP_INFO, _TOKEN = 284, 1, struct.Struct("=12xI")  # struct mptcp_info in linux/mptcp.h
_BYTES_RECEIVED = struct.Struct("=128xQ")  # struct tcp_info in linux/tcp.h


def main() -> None:
    """Download as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_route(parser)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="break the download off after these")
    parser.add_argument("--every", type=float, default=0.1, metavar="SECONDS", help="between samples (default: 0.1)")
    parser.add_argument("--interface", action="append", default=[], help="count the bytes of this interface as well")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with requested(arguments.url, arguments.proxy, arguments.source, arguments.mptcp) as connection:
        whole = False
        try:
            whole = _receive(connection, arguments)
        finally:
            if not whole:
                break_off(connection)


def add_route(parser: argparse.ArgumentParser) -> None:
    """Add what requested() takes."""
    parser.add_argument("url")
    parser.add_argument("--proxy", metavar="HOST:PORT", help="HTTP proxy; without it the server is asked itself")
    parser.add_argument("--source", metavar="ADDRESS", help="local address to connect from")
    parser.add_argument("--mptcp", action="store_true", help="use MPTCP")


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

    try:
        response = answered(connection)
    except TimeoutError as error:
        raise TimeoutError(f"no answer to the request for {_STALLED:g} s") from error
    digest, waiting = hashlib.sha256(), list[int]()
    next_sample, received = start, 0
    for chunk in _arriving(connection, response, start + arguments.seconds):
        digest.update(chunk)
        received += len(chunk)
        if not _unread(connection):
            waiting.append(_waiting(connection))
        now = time.monotonic()
        if now >= next_sample:
            next_sample = now + arguments.every
            _print(sample())
    result = {"started": started, "status": response.status, "sha256": digest.hexdigest()}
    _print(sample() | result)
    return not response.length


def _arriving(connection: socket.socket, response: HTTPResponse, end: float) -> Iterator[bytes]:
    """What comes of the body until ``end``, piece by piece; raises TimeoutError, which says how much came, if nothing
    comes for long before.
    """
    body, arrived = read_body(response), 0
    try:
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(min(left, _STALLED))
            piece = next(body, b"")
            if not piece:
                return
            arrived += len(piece)
            yield piece
    except TimeoutError as error:
        if time.monotonic() < end:
            raise TimeoutError(f"nothing for {_STALLED:g} s behind the first {arrived} bytes of the body") from error


def _unread(connection: socket.socket) -> int:
    return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)


def _waiting(connection: socket.socket) -> int:
    # linux/sock_diag.h: numbers of 32 bits, SK_MEMINFO_RMEM_ALLOC the first.
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4), sys.byteorder)


def _wire_bytes(interface: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics/rx_bytes").read_text())


def _print(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


def requested(
    url: str, proxy: str | None, source: str | None, mptcp: bool, upload: int | None = None, seconds: float = _STALLED
) -> socket.socket:
    """A connection with a GET of ``url`` on its way, or the head of a PUT of so many bytes: through ``proxy``
    (host:port), from the address ``source``, if given; raises OSError, TimeoutError if connecting takes ``seconds``.
    """
    parts = urlsplit(url)
    peer = urlsplit(f"//{proxy}") if proxy else parts
    family = socket.AF_INET6 if ":" in (peer.hostname or "") else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP if mptcp else 0)
    connection.settimeout(seconds)
    if source:
        connection.bind((source, 0))
    connection.connect((peer.hostname, peer.port or 80))
    target = url if proxy else parts.path
    method, length = ("GET", "") if upload is None else ("PUT", f"Content-Length: {upload}\r\n")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n{length}Connection: close\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def answered(connection: socket.socket) -> HTTPResponse:
    """The response, once its head has come; raises EOFError if that does not say how long it is."""
    response = HTTPResponse(connection)
    response.begin()
    if response.length is None:
        raise EOFError("the server sent no whole head")
    return response


def read_body(response: HTTPResponse) -> Iterator[bytes]:
    """What comes of the body, piece by piece; raises EOFError if the connection ends before."""
    while response.length:
        chunk = response.read1(1 << 18)
        if not chunk:
            raise EOFError(f"the connection ended {response.length} bytes before the end of the body")
        yield chunk


@dataclass(frozen=True)
class Subflow:
    """One subflow of a connection: its addresses as ``address:port``, and the payload bytes that came by it."""

    local: str
    remote: str
    received: int


def subflows_of(connection: socket.socket) -> list[Subflow]:
    """The subflows of ``connection``; a plain TCP connection counts as one. Raises OSError."""
    if connection.proto != socket.IPPROTO_MPTCP:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        ends = FourTuple(*connection.getsockname()[:2], *connection.getpeername()[:2])
        return [Subflow(ends.local_end, ends.remote_end, *_BYTES_RECEIVED.unpack(info))]
    (token,) = _TOKEN.unpack(connection.getsockopt(_SOL_MPTCP, _MPTCP_INFO, _TOKEN.size))
    return [
        Subflow(ends.local_end, ends.remote_end, each.received)
        for ends, each in traffic().items()
        if each.token == token
    ]


def break_off(connection: socket.socket) -> None:
    """Drop ``connection`` with all that is on its way; the peer gets a reset, of all subflows.

    A close would not do: the kernel says goodbye in order when nothing is unread at that moment, and the peer of an
    MPTCP session may then go on sending for a while.
    """
    # connect(2): AF_UNSPEC dissolves the association.
    _libc.connect(connection.fileno(), bytes(16), 16)


if __name__ == "__main__":
    main()
