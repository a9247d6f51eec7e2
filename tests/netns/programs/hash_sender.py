"""Sends blocks by MPTCP to one client of the port in argv[1] until it says a byte, then prints the SHA-256 of them
all."""

import hashlib
import itertools
import socket
import sys

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen(1)
print("ready", flush=True)
connection, _ = listener.accept()
sent = hashlib.sha256()
for number in itertools.count():
    block = hashlib.sha256(number.to_bytes(8)).digest() * 512
    connection.sendall(block)
    sent.update(block)
    try:
        connection.recv(1, socket.MSG_DONTWAIT)
        break
    except BlockingIOError:
        pass
connection.shutdown(socket.SHUT_WR)
print(sent.hexdigest(), flush=True)
connection.recv(1)
