"""Becomes the program in argv[2:], with a socket of protocol argv[1] that listens at port 3128: sd_listen_fds(3)."""

import os
import socket
import sys

listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, int(sys.argv[1]))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
listener.bind(("::", 3128))
listener.listen(64)
print("passed", listener.fileno(), flush=True)
if listener.fileno() != 3:
    os.dup2(listener.fileno(), 3)
else:
    os.set_inheritable(3, True)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
