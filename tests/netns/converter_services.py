"""What listens at the server in the native converter's tests, and what its clients hear when they are served."""

import socket
import time

from tests.netns.converter_clients import TUNNELS, take_head
from tests.netns.converter_world import Handler

CONTENT = bytes(range(256)) * 8192


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def greet(connection: socket.socket) -> None:
    connection.sendall(b"hello")
    connection.recv(1)


def answer(connection: socket.socket) -> None:
    """A web server, as often as it is asked."""
    while True:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")


def content(connection: socket.socket) -> None:
    """An HTTP server that says CONTENT and waits for the client to end."""
    while True:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT)


def stream(size: int) -> Handler:
    """A service that sends so many bytes, slowly enough for something to happen meanwhile."""

    def push(connection: socket.socket) -> None:
        for _ in range(size >> 16):
            connection.sendall(bytes(1 << 16))
            time.sleep(0.001)

    return push


SERVICE = {"absolute": answer} | dict.fromkeys(TUNNELS, greet)
SERVED = {"absolute": "200"} | dict.fromkeys(TUNNELS, "hello")
