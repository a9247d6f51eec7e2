"""Reads numbered blocks from argv[1] at port argv[2] by MPTCP; each line that it is sent asks how many came whole, or
why no more come."""

import socket
import struct
import sys
import threading

address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
connection = socket.socket(family, socket.SOCK_STREAM, 262)
connection.connect((address, int(sys.argv[2])))
count, ended = 0, ""


def read() -> None:
    global count, ended
    try:
        with connection.makefile("rb") as stream:
            while block := stream.read(8192):
                assert block == struct.pack("!Q", count) * 1024, "wrong data"
                count += 1
            ended = "end"
    except Exception as error:
        ended = repr(error)


threading.Thread(target=read, daemon=True).start()
print("ready", flush=True)
for _ in sys.stdin:
    print(ended or count, flush=True)
