"""Sends numbered blocks of 8 kB, one in 5 ms, by MPTCP to everybody who connects to the port in argv[1]: 13 Mbit/s."""

import socket
import struct
import sys
import threading
import time


def serve(connection: socket.socket) -> None:
    try:
        for number in range(10**9):
            connection.sendall(struct.pack("!Q", number) * 1024)
            time.sleep(0.005)
    except OSError:
        connection.close()


listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("::", int(sys.argv[1])))
listener.listen(100)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
