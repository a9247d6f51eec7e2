"""Downloads through a proxy by MPTCP (argv: proxy, port, URL, bytes), and prints what the kernel counts for each
subflow."""

import json
import socket
import sys

from experiments.probes.subflows import subflows_of

proxy, port, url, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect((proxy, port))
connection.sendall(f"GET {url} HTTP/1.1\r\nHost: server\r\n\r\n".encode())
left = size
while left > 0:
    left -= len(connection.recv(1 << 18))
print(json.dumps({each.local: each.received for each in subflows_of(connection)}), flush=True)
sys.stdin.read()
