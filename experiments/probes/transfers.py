"""Transfers over connections of their own, one after the other, and how long each took.

    python -m experiments.probes.transfers ADDRESS PORT COUNT SIZE...

Asks for each SIZE in bytes COUNT times (GET /SIZE?close). Prints one JSON object: for every size a list of
[milliseconds to the answer's first byte, milliseconds to its end], both from before connect(2).
"""

import json
import socket
import sys
import time

from experiments.probes.http import read_head

_STALLED = 30.0  # seconds


def transfer(address: str, port: int, size: int) -> tuple[float, float]:
    """Milliseconds to the first byte and to the last; raises OSError, EOFError if it does not come whole."""
    with socket.socket() as connection:
        connection.settimeout(_STALLED)
        began = time.monotonic()
        connection.connect((address, port))
        connection.sendall(f"GET /{size}?close HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        connection.recv(1, socket.MSG_PEEK)
        first = time.monotonic()
        _, length, body = read_head(connection)
        missing = length - len(body)
        while missing and (piece := connection.recv(min(missing, 1 << 16))):
            missing -= len(piece)
        if missing or length != size:
            raise EOFError(f"{length - missing} of {size} bytes came")
        return 1000 * (first - began), 1000 * (time.monotonic() - began)


def main(address: str, port: str, count: str, *sizes: str) -> None:
    """All of them."""
    taken = {size: [transfer(address, int(port), int(size)) for _ in range(int(count))] for size in sizes}
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
