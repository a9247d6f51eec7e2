"""Transfers over connections of their own, one after the other, and how long each took.

    python -m experiments.probes.transfers [--convert ADDRESS:PORT] ADDRESS PORT COUNT SIZE...

Asks for each SIZE in bytes COUNT times (GET /SIZE?close). Prints one JSON object: for every size a list of
[milliseconds to the answer's first byte, milliseconds to its end], both from before connect(2). With --convert the
server is reached by RFC 8803, through the converter there: message and request go with the SYN, which takes a kernel
that sends data in SYNs without a cookie (net.ipv4.tcp_fastopen).
"""

import json
import socket
import struct
import sys
import time
from ipaddress import IPv4Address

from experiments.probes.http import read_head

_STALLED = 30.0  # seconds
_VERSION, _MAGIC, _CONNECT = 1, 0x2263, 10  # RFC 8803 sections 6.1 and 6.2.2
_ESTABLISHED = struct.pack("!BBH", _VERSION, 1, _MAGIC)
"""The answer of a converter that has connected, and was asked for nothing else."""


def transfer(address: str, port: int, size: int, converter: str = "") -> tuple[float, float]:
    """Milliseconds to the first byte and to the last; raises OSError, EOFError if it does not come whole."""
    request = f"GET /{size}?close HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.settimeout(_STALLED)
        began = time.monotonic()
        if converter:
            host, _, converter_port = converter.rpartition(":")
            message = _connect_message(address, port) + request
            connection.sendto(message, socket.MSG_FASTOPEN, (host, int(converter_port)))
            if (answer := connection.recv(len(_ESTABLISHED), socket.MSG_WAITALL)) != _ESTABLISHED:
                raise EOFError(f"the converter answers {answer!r}")
        else:
            connection.connect((address, port))
            connection.sendall(request)
        connection.recv(1, socket.MSG_PEEK)
        first = time.monotonic()
        _, length, body = read_head(connection)
        missing = length - len(body)
        while missing and (piece := connection.recv(min(missing, 1 << 16))):
            missing -= len(piece)
        if missing or length != size:
            raise EOFError(f"{length - missing} of {size} bytes came")
        return 1000 * (first - began), 1000 * (time.monotonic() - began)


def _connect_message(address: str, port: int) -> bytes:
    """A Connect TLV alone (RFC 8803 section 6.2.5)."""
    mapped = bytes(10) + b"\xff\xff" + IPv4Address(address).packed
    return struct.pack("!BBHBBH", _VERSION, 6, _MAGIC, _CONNECT, 5, port) + mapped


def main(*arguments: str) -> None:
    """All of them."""
    converter, rest = (arguments[1], arguments[2:]) if arguments[0] == "--convert" else ("", arguments)
    address, port, count, *sizes = rest
    taken = {size: [transfer(address, int(port), int(size), converter) for _ in range(int(count))] for size in sizes}
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
