"""HTTP messages in the native converter's tests, as servers write and clients read them."""

import socket

from tests.netns.converter_clients import take, take_head


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
