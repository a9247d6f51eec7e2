"""Opens argv[1] MPTCP sessions at once for each line of its input, waits for argv[2] joins of each, and closes all."""

import socket
import sys
import time

sessions, joins = map(int, sys.argv[1:])


def subflows(connection: socket.socket) -> int:
    # MPTCP_INFO at SOL_MPTCP (linux/mptcp.h): its first byte counts the subflows beside the first.
    return connection.getsockopt(284, 1, 64)[0]


def opened() -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    connection.connect(("10.0.1.1", 3128))
    connection.sendall(b"100\n")
    left = 100
    while left:
        left -= len(connection.recv(left))
    return connection


for _ in sys.stdin:
    alive = [opened() for _ in range(sessions)]
    deadline = time.monotonic() + 10
    while any(subflows(connection) < joins for connection in alive):
        assert time.monotonic() < deadline, [subflows(connection) for connection in alive]
        time.sleep(0.01)
    print("joined", flush=True)
    sys.stdin.readline()
    for connection in alive:
        connection.close()
