"""Reads by MPTCP from 10.0.1.1 at the port in argv[1], asks for the end when it is sent a line; prints SHA-256 and
bytes."""

import hashlib
import select
import socket
import sys

connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect(("10.0.1.1", int(sys.argv[1])))
got, total, asked = hashlib.sha256(), 0, False
while True:
    ready, _, _ = select.select([connection] + ([] if asked else [sys.stdin]), [], [])
    if sys.stdin in ready:
        connection.sendall(b"x")
        asked = True
    if connection in ready:
        block = connection.recv(65536)
        if not block:
            break
        got.update(block)
        total += len(block)
print(got.hexdigest(), total, flush=True)
