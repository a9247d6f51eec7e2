"""Asks the hasty server at argv[1] for 2 MB by MPTCP, and reads them when it is sent a line; prints how many came."""

import socket
import sys

connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect((sys.argv[1], 3129))
connection.sendall(b"1000")
left = 1000
while left:
    left -= len(connection.recv(left))
connection.sendall(b"2000000")
sys.stdin.readline()
print(sum(iter(lambda: len(connection.recv(65536)), 0)), flush=True)
