"""Requests of the probes, to a server on the loopback interface."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from experiments.probes.download import Request, read_body, read_head


@contextmanager
def answering(response: bytes) -> Iterator[str]:
    """A server that gives every connection the same response; the URL is for it."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the listener is closed
            with connection:
                connection.recv(65536)
                connection.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/file"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_response_is_read_to_its_length() -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url,
        Request(url, None, "127.0.0.1", mptcp=False).send() as connection,
    ):
        status, length, body = read_head(connection)
        assert (status, body + b"".join(read_body(connection, length - len(body)))) == (200, b"hello")


@pytest.mark.parametrize("cut", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"])
def test_a_response_that_ends_early_is_an_error(cut: bytes) -> None:
    with answering(cut) as url, Request(url, None, None, mptcp=False).send() as connection, pytest.raises(EOFError):
        _, length, body = read_head(connection)
        list(read_body(connection, length - len(body)))
