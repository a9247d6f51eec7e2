"""Writes as many bytes as it is asked for, twice, by MPTCP at port 3129, and closes while most of them wait in its
buffer."""

import socket

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.SOL_SOCKET, 32, 1 << 23)  # SO_SNDBUFFORCE
listener.bind(("0.0.0.0", 3129))
listener.listen()
print("ready", flush=True)
connection = listener.accept()[0]
for _ in range(2):
    connection.sendall(bytes(int(connection.recv(100))))
connection.close()
print("closed", flush=True)
input()
