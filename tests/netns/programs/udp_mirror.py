"""Answers each datagram at PORT with the address from which it came; prints ``ready`` first."""

import socket
import sys

mirror = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mirror.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    _, asker = mirror.recvfrom(64)
    mirror.sendto(asker[0].encode(), asker)
