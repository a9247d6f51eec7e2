"""As many bytes as a connection takes, for a while, in one direction.

    python -m experiments.probes.bulk serve ADDRESS PORT        prints ready, runs until SIGTERM, takes TCP and MPTCP
    python -m experiments.probes.bulk run ADDRESS PORT DIRECTION SECONDS [--mptcp] [--pace BITS_PER_SECOND] [--after S]

``run`` asks the server to send (``download``) or to read (``upload``), and prints {"bits_per_second": ...} of the
payload that it received or, for an upload, gave to its socket. On SIGTERM it ends at once. A paced connection sends no
faster than that (socket(7), SO_MAX_PACING_RATE); with --after its bytes begin so many seconds after the handshake.
"""

import argparse
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.probes.ending import break_off

_SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; bytes per second
_NOTHING = bytes(1 << 18)
_STALLED = 30.0  # seconds without progress after which the run has failed


def serve(address: str, port: int) -> None:
    """Serve each connection in a thread of its own, until it ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(16)
        print("ready", flush=True)
        while True:
            threading.Thread(target=_serve_one, args=(listener.accept()[0],), daemon=True).start()


def _serve_one(connection: socket.socket) -> None:
    """The first line is the direction and the pace, 0 for none."""
    try:
        with connection:
            direction, pace = _request(connection).split()
            if direction == b"download":
                _send(connection, float("inf"), int(pace))
            else:
                _receive(connection, float("inf"))
    except OSError:
        return  # the client is done, or gone


def _request(connection: socket.socket) -> bytes:
    """The first line; what comes with it of an upload is dropped. Raises OSError if there is none."""
    request = b""
    while b"\n" not in request:
        piece = connection.recv(64)
        if not piece:
            raise ConnectionResetError("no request")
        request += piece
    return request.partition(b"\n")[0]


def run(arguments: argparse.Namespace) -> float:
    """Bits per second over the whole time."""
    with _connected(arguments) as connection:
        # Its first half establishes an MPTCP session for the listener too (RFC 8684 section 3.1).
        connection.sendall(f"{arguments.direction} ".encode())
        time.sleep(arguments.after)
        connection.sendall(f"{arguments.pace}\n".encode())
        if arguments.direction == "download":
            return _receive(connection, arguments.seconds)
        return _send(connection, arguments.seconds, arguments.pace)


@contextmanager
def _connected(arguments: argparse.Namespace) -> Iterator[socket.socket]:
    """A connection that is cut off at the end: what is in its buffers would disturb the next measurement."""
    protocol = socket.IPPROTO_MPTCP if arguments.mptcp else 0
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as connection:
        connection.settimeout(_STALLED)
        connection.connect((arguments.address, arguments.port))
        try:
            yield connection
        finally:
            break_off(connection)


def _send(connection: socket.socket, seconds: float, pace: int) -> float:
    if pace:
        connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, pace // 8)
    return _rate(lambda: connection.send(_NOTHING), seconds)


def _receive(connection: socket.socket, seconds: float) -> float:
    buffer = bytearray(len(_NOTHING))
    return _rate(lambda: connection.recv_into(buffer), seconds)


def _rate(step: Callable[[], int], seconds: float) -> float:
    """Bits per second of what ``step`` passes each time it is called; it ends early when it passes nothing."""
    start, passed = time.monotonic(), 0
    while (elapsed := time.monotonic() - start) < seconds:
        count = step()
        if not count:
            break
        passed += count
    return 8 * passed / elapsed if elapsed else 0.0


def main() -> None:
    """Do as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("serve", "run"):
        added = commands.add_parser(command)
        added.add_argument("address")
        added.add_argument("port", type=int)
    added.add_argument("direction", choices=("download", "upload"))
    added.add_argument("seconds", type=float)
    added.add_argument("--mptcp", action="store_true")
    added.add_argument("--pace", type=int, default=0)
    added.add_argument("--after", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.command == "serve":
        serve(arguments.address, arguments.port)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        print(json.dumps({"bits_per_second": run(arguments)}))


if __name__ == "__main__":
    main()
