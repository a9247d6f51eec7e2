"""Transfers at once, each a request on a connection of its own, and how many bytes of them arrive in a time.

Prints ``begun`` at the first connect, then {"bytes", "seconds"} of all together, from there until the last one is whole
or the time is over.
Of an upload that is broken off counts what the other end has acknowledged. What is broken off ends by a reset.
"""

import argparse
import fcntl
import json
import socket
import sys
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from experiments.probes.download import add_route, answered, break_off, read_body, requested

_PIECE = bytes(1 << 18)


def main() -> None:
    """Transfer as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_route(parser)
    parser.add_argument("--upload", type=int, metavar="BYTES", help="send so many by each connection")
    parser.add_argument("--connections", type=int, default=1, help="at once (default: 1)")
    parser.add_argument("--seconds", type=float, required=True, help="break off after these")
    arguments = parser.parse_args()
    print("begun", flush=True)
    begun = time.monotonic()
    ask = partial(requested, arguments.url, arguments.proxy, arguments.source, arguments.mptcp, arguments.upload)
    with ThreadPoolExecutor(arguments.connections) as pool:
        end = begun + arguments.seconds
        transfers = [pool.submit(_transfer, ask, arguments.upload, end) for _ in range(arguments.connections)]
        arrived = sum(transfer.result() for transfer in transfers)
    print(json.dumps({"bytes": arrived, "seconds": time.monotonic() - begun}))


def _transfer(ask: Callable[..., socket.socket], upload: int | None, end: float) -> int:
    """How many bytes arrive until ``end``."""
    try:
        connection = ask(seconds=max(end - time.monotonic(), 1e-3))
    except TimeoutError:
        return 0
    with connection:
        arrived, whole = _received(connection, end) if upload is None else _sent(connection, upload, end)
        if not whole:
            break_off(connection)
    return arrived


def _received(connection: socket.socket, end: float) -> tuple[int, bool]:
    arrived = 0
    try:
        _wait_until(end, connection)
        response = answered(connection)
        for piece in read_body(response):
            arrived += len(piece)
            _wait_until(end, connection)
    except TimeoutError:
        return arrived, False
    return arrived, True


def _sent(connection: socket.socket, upload: int, end: float) -> tuple[int, bool]:
    left = upload
    try:
        while left:
            _wait_until(end, connection)
            left -= connection.send(memoryview(_PIECE)[:left])
        _wait_until(end, connection)
        answered(connection)
    except TimeoutError:
        waiting = int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return max(0, upload - left - waiting), False
    return upload, True


def _wait_until(end: float, connection: socket.socket) -> None:
    """The next call on ``connection`` waits no longer; raises TimeoutError if that is over."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


if __name__ == "__main__":
    main()
