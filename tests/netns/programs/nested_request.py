"""Sends brackets without an end to the throttler's control socket, as anybody could; prints the answer."""

import socket

connection = socket.socket(socket.AF_UNIX)
connection.connect("\0tributary/throttler")
connection.sendall(b"[" * 60000 + b"\n")
print(connection.recv(1000).decode())
