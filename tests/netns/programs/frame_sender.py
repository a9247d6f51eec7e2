"""Sends the frames of its input, one hexadecimal line each, at argv[1] a second by "wired"; prints the seconds."""

import socket
import sys
import time

frames = [bytes.fromhex(line) for line in sys.stdin]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("wired", 0))
began = time.monotonic()
for number, frame in enumerate(frames):
    if number % 50 == 0:
        time.sleep(max(0, began + number / int(sys.argv[1]) - time.monotonic()))
    wire.send(frame)
print(time.monotonic() - began)
