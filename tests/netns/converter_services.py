"""What listens at the server in the native converter's tests, HTTP messages, and what clients hear of them."""

import socket
import threading
import time
from collections.abc import Callable

from tests.netns.connections import take, take_head
from tests.netns.converter_clients import TUNNELS, request
from tests.netns.converter_process import SERVER

Handler = Callable[[socket.socket], object]
CONTENT = bytes(range(256)) * 8192

# --- Messages ---


def respond(connection: socket.socket, text: bytes, fields: bytes = b"", status: bytes = b"200 OK") -> None:
    connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(text), fields, text))


def path_of(head: bytes) -> bytes:
    return head.split()[1]


def fields_of(head: bytes) -> dict[bytes, bytes]:
    """A head's fields by their names in lower case, as are their values."""
    return dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)


def heard(connection: socket.socket) -> tuple[bytes, bytes]:
    """A response with a length: its head and its content."""
    head = take_head(connection)
    return head, take(connection, int(fields_of(head).get(b"content-length", b"0")))


def fetch(
    client: socket.socket, port: int, path: str = "/", method: str = "GET", fields: str = "", content: bytes = b""
) -> tuple[bytes, bytes]:
    """Ask SERVER by a connection to the proxy; the response's head and its content."""
    client.sendall(request("absolute", SERVER, port, path, method, fields) + content)
    return heard(client)


def chunks(data: bytes, size: int) -> bytes:
    """RFC 9112 section 7.1, with an extension and a trailer."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def dechunked(connection: socket.socket) -> bytes:
    data = b""
    while True:
        line = b""
        while not line.endswith(b"\r\n"):
            line += take(connection, 1)
        size = int(line.partition(b";")[0], 16)
        data += take(connection, size)
        assert take(connection, 2) == b"\r\n"
        if size == 0:
            return data


def take_request(connection: socket.socket) -> bytes:
    """The TLVs of a message of RFC 8803 section 6.1."""
    return take(connection, 4 * take(connection, 4)[1] - 4)


# --- Services ---


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def greet(connection: socket.socket) -> None:
    connection.sendall(b"hello")
    connection.recv(1)


def answer(connection: socket.socket, text: bytes = b"hi") -> None:
    """A web server, as often as it is asked."""
    while True:
        take_head(connection)
        respond(connection, text)


def naming(slow: float = 0, asked: list[bytes] | None = None) -> Handler:
    """A web server that answers with the path, ``/slow`` after so many seconds, and notes what it was ``asked`` for."""

    def serve(connection: socket.socket) -> None:
        while True:
            path = path_of(take_head(connection))
            if asked is not None:
                asked.append(path)
            time.sleep(slow if path == b"/slow" else 0)
            respond(connection, path)

    return serve


def content(connection: socket.socket) -> None:
    answer(connection, CONTENT)


def hold(connection: socket.socket) -> None:
    """A service whose connections are the test's; ends when the test has closed them."""
    while connection.fileno() >= 0:
        time.sleep(0.05)


def late(begin: threading.Event, size: int) -> Handler:
    """A web server that sends its head at once, and so many bytes as soon as it may."""

    def serve(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        begin.wait(20)
        connection.sendall(bytes(size))

    return serve


def stream(size: int) -> Handler:
    """A service that sends so many bytes, slowly enough for something to happen meanwhile."""

    def push(connection: socket.socket) -> None:
        for _ in range(size >> 16):
            connection.sendall(bytes(1 << 16))
            time.sleep(0.001)

    return push


SERVICE = {"absolute": answer} | dict.fromkeys(TUNNELS, greet)
SERVED = {"absolute": "200"} | dict.fromkeys(TUNNELS, "hello")
