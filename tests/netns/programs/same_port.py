"""Opens argv[2] MPTCP sessions one after the other, all from port argv[1], and resets each soon after.

Prints "open" when the last one is there, which stays until its input ends.
"""

import socket
import struct
import sys
import time

port, count = map(int, sys.argv[1:])


def opened() -> socket.socket:
    deadline = time.monotonic() + 10
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind(("10.0.1.2", port))
            connection.connect(("10.0.1.1", 3128))
            connection.sendall(b"1\n")
            # The session before is reset on this side; the gateway may not have heard of it yet.
            if connection.recv(1):
                return connection
        except OSError:
            assert time.monotonic() < deadline
        connection.close()
        time.sleep(0.01)


for _ in range(count - 1):
    connection = opened()
    time.sleep(0.1)
    # SO_LINGER of no time: close() resets (socket(7)).
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
last = opened()
print("open", flush=True)
sys.stdin.readline()
