"""Connects COUNT times to the control socket PATH, sends the file REQUEST by each, and says ready.

Prints, for each line of its input, how many connections have been answered or closed by then. Connections whose
request is an empty file are idle.
"""

import selectors
import socket
import sys
from pathlib import Path

path, count, request = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
done = 0
open_ones = selectors.DefaultSelector()
for _ in range(count):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(request)
    open_ones.register(connection, selectors.EVENT_READ)
print("ready", flush=True)
for _line in sys.stdin:
    for key, _ in open_ones.select(0):
        open_ones.unregister(key.fileobj)
        done += 1
    print(done, flush=True)
