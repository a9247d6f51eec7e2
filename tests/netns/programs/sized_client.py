"""Asks the server at argv[1] by MPTCP for as many bytes as each line says, sends as many for a negative number; says
"done"."""

import socket
import sys

address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect((address, 3128))
for line in sys.stdin:
    connection.sendall(line.encode())
    left = int(line)
    if left < 0:
        connection.sendall(bytes(-left))
        left = 1
    while left:
        left -= len(connection.recv(min(left, 65536)))
    print("done", flush=True)
connection.close()
