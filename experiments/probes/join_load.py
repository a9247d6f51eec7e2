"""New MPTCP sessions at an even pace, each of which joins as often as the kernel's endpoints say.

    python -m experiments.probes.join_load accept ADDRESS PORT                     prints ready, runs until SIGTERM
    python -m experiments.probes.join_load open ADDRESS PORT PER_SECOND SECONDS    prints one JSON line

Open loop: a session starts when its time has come, whether others did well or not, and lives for some 1.5 seconds. It
sends one byte, since a client joins only after the listener has acknowledged data (RFC 8684 section 3.1).
"""

import json
import resource
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

_LIFETIME = 1.5
_TIMEOUT = 0.002
"""Seconds between two looks at the clock."""


def accept(address: str, port: int) -> None:
    """Take every connection, read it to its end, close it."""
    _raise_descriptors()
    with _socket() as listener, select.epoll() as events:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(4096)
        events.register(listener, select.EPOLLIN)
        print("ready", flush=True)
        connections: dict[int, socket.socket] = {}
        while True:
            for number, _ in events.poll():
                if number == listener.fileno():
                    connection = listener.accept()[0]
                    connections[connection.fileno()] = connection
                    events.register(connection, select.EPOLLIN)
                elif _is_over(connections[number]):
                    connections.pop(number).close()


def open_sessions(address: str, port: int, per_second: float, seconds: float) -> dict[str, int]:
    """How many sessions were opened, and how many of them could not connect."""
    _raise_descriptors()
    start, opened, failed = time.monotonic(), 0, 0
    living: deque[tuple[float, socket.socket]] = deque()
    with select.epoll() as events:
        connecting: dict[int, socket.socket] = {}
        while (now := time.monotonic() - start) < seconds or living:
            while now < seconds and opened <= now * per_second:
                session = _socket()
                session.connect_ex((address, port))
                events.register(session, select.EPOLLOUT)
                connecting[session.fileno()] = session
                living.append((now + _LIFETIME, session))
                opened += 1
            for number, _ in events.poll(_TIMEOUT):
                events.unregister(number)
                failed += not _says_something(connecting.pop(number))
            while living and living[0][0] <= now:
                session = living.popleft()[1]
                connecting.pop(session.fileno(), None)
                session.close()
    return {"opened": opened, "failed": failed}


def _socket() -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    connection.setblocking(False)
    return connection


def _says_something(session: socket.socket) -> bool:
    try:
        return session.send(b"x") == 1
    except OSError:
        return False


def _is_over(connection: socket.socket) -> bool:
    try:
        return not connection.recv(64)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _raise_descriptors() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    if sys.argv[1] == "accept":
        accept(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(open_sessions(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))))
