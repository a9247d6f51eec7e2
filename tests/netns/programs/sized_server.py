"""Sends by MPTCP at port 3128 as many bytes as each line of a client says; reads as many if the number is negative,
and says so."""

import socket
import threading


def serve(connection: socket.socket) -> None:
    block = bytes(65536)
    try:
        stream = connection.makefile("rb")
        for line in stream:
            left = int(line)
            if left < 0:
                while left:
                    left += len(stream.read(min(-left, 65536)))
                connection.send(b"k")
            while left:
                left -= connection.send(block[:left])
    except OSError:
        pass
    connection.close()


listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("::", 3128))
listener.listen(100)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
