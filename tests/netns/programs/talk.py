"""Exchanges a byte with itself twenty times a second, over a connection to argv[1] at port argv[2]."""

import socket
import sys
import time

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
while True:
    for one, other in ((near, far), (far, near)):
        one.sendall(b"x")
        other.recv(1)
    time.sleep(0.05)
