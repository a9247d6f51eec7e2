"""Accepts connections at port argv[2] of argv[1], says so of each, and reads until its end."""

import socket
import sys

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    connection, _ = listener.accept()
    received = connection.recv(1)
    print("sent something" if received else "accepted", flush=True)
    connection.close()
