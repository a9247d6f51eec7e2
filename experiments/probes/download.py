"""Downloads a URL over TCP or MPTCP and tells what came by which subflow, as the kernel counts it.

One JSON object a line: a sample at short intervals, as long as bytes come, then the result.

    sample  {"at": SECONDS, "bytes": BODY, "subflows": [{"local", "remote", "received"}], "wire": {INTERFACE: BYTES}}
    result  the same, with "started" (Unix time), "status", and "sha256" of the body, as far as it came

"received" counts payload bytes of the subflow, "wire" all bytes of frames that came in by the interface.
"""

import argparse
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from experiments.probes.ending import break_off
from experiments.probes.subflows import subflows_of

_STALLED = 30.0  # seconds without a byte after which the download has failed
_MOST_HEAD = 65536


def main() -> None:
    """Download as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--proxy", metavar="HOST:PORT", help="HTTP proxy; without it the request goes to the server")
    parser.add_argument("--source", metavar="ADDRESS", help="local address to connect from")
    parser.add_argument("--mptcp", action="store_true", help="use MPTCP")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="break the download off after these")
    parser.add_argument("--every", type=float, default=0.1, metavar="SECONDS", help="between samples (default: 0.1)")
    parser.add_argument("--interface", action="append", default=[], help="count the bytes of this interface as well")
    arguments = parser.parse_args()
    with _connected(arguments) as connection:
        connection.sendall(_request(arguments.url, arguments.proxy is not None))
        _receive(connection, arguments)
        break_off(connection)


def _connected(arguments: argparse.Namespace) -> socket.socket:
    url = urlsplit(arguments.url)
    peer = urlsplit(f"//{arguments.proxy}") if arguments.proxy else url
    address = (peer.hostname, peer.port or 80)
    family = socket.AF_INET6 if ":" in (peer.hostname or "") else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP if arguments.mptcp else 0)
    connection.settimeout(_STALLED)
    if arguments.source:
        connection.bind((arguments.source, 0))
    connection.connect(address)
    return connection


def _request(url: str, through_proxy: bool) -> bytes:
    parts = urlsplit(url)
    target = url if through_proxy else parts.path
    return f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode()


def _receive(connection: socket.socket, arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    started = time.time()
    before = {name: _wire_bytes(name) for name in arguments.interface}

    def sample() -> dict[str, object]:
        wire = {name: _wire_bytes(name) - before[name] for name in before}
        subflows = [asdict(subflow) for subflow in subflows_of(connection)]
        return {"at": round(time.monotonic() - start, 6), "bytes": received, "subflows": subflows, "wire": wire}

    head, body = _read_head(connection)
    status, length = _parse_head(head)
    digest = hashlib.sha256(body)
    next_sample = start
    received = len(body)
    for chunk in _body(connection, length - len(body)):
        digest.update(chunk)
        received += len(chunk)
        now = time.monotonic()
        if now >= next_sample:
            next_sample = now + arguments.every
            _print(sample())
        if now >= start + arguments.seconds:
            break
    result = {"started": started, "status": status, "sha256": digest.hexdigest()}
    _print(sample() | result)


def _body(connection: socket.socket, length: int) -> Iterator[bytes]:
    while length > 0:
        chunk = connection.recv(1 << 18)
        if not chunk:
            raise EOFError(f"the connection ended {length} bytes before the end of the body")
        yield chunk
        length -= len(chunk)


def _read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    """The response's head, and what of the body came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(_MOST_HEAD)
        if not chunk or len(data) > _MOST_HEAD:
            raise EOFError("the server sent no whole head")
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body


def _parse_head(head: bytes) -> tuple[int, int]:
    """Status code and Content-Length of a response's ``head``."""
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(status_line.split()[1]), int(fields["content-length"])


def _wire_bytes(interface: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics/rx_bytes").read_text())


def _print(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
