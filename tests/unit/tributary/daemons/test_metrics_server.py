import errno
import http.client
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address

import pytest

from tests.refusals import command_error, usage_error
from tributary.daemons.metrics_server import respond
from tributary.daemons.metrics_server import server as listen
from tributary.daemons.request_server import Server
from tributary.settings import metrics_argument
from tributary.settings.cli import Arguments
from tributary.settings.errors import Exit
from tributary.settings.hosts import Target


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x", b"200 OK"),
        (b"GET /metrics?x=1 HTTP/1.0", b"200 OK"),
        (b"GET http://host:9464/metrics HTTP/1.1", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /metrics HTTP/2.0", b"505 HTTP Version Not Supported"),
        (b"GET /metrics", b"400 Bad Request"),
        (b"GET http://[/metrics HTTP/1.1", b"400 Bad Request"),
        (b"\xff \xff \xff", b"400 Bad Request"),
        (b"", b"400 Bad Request"),
    ],
)
def test_status_of_a_request(head: bytes, status: bytes) -> None:
    assert respond(head, lambda: b"x 1\n").startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_head_gets_the_length_and_no_body() -> None:
    response = respond(b"HEAD /metrics HTTP/1.1", lambda: b"x 1\n")
    assert b"Content-Length: 4\r\n" in response and response.endswith(b"\r\n\r\n")


def at(address: str, port: int = 0) -> Target:
    return Target(ip_address(address), port)


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with listen(at(request.param)) as found:
        yield found


def serve_while(server: Server, client: Callable[[], object], page: bytes = b"x 1\n") -> None:
    """Run ``client`` in a thread, and the loop as the daemon would until it is done."""
    thread = threading.Thread(target=client)
    thread.start()
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while thread.is_alive():
            selector.select(0.02)
            server.serve(lambda head, _: respond(head, lambda: page))


def test_a_page_of_any_size_arrives_whole(server: Server) -> None:
    found: list[bytes] = []
    page = b"x 1\n" * 2_000_000

    def client() -> None:
        connection = http.client.HTTPConnection(*server.address, timeout=10)
        connection.request("GET", "/metrics")
        found.append(connection.getresponse().read())
        connection.close()

    serve_while(server, client, page)
    assert found == [page]


@pytest.mark.parametrize(
    ("pieces", "start", "end"),
    [
        ([bytes([byte]) for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"], b"HTTP/1.1 200 ", b"\r\n\r\nx 1\n"),
        ([b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000], b"HTTP/1.1 431 ", b""),
    ],
    ids=["byte by byte", "without end"],
)
def test_a_request_in_pieces_is_answered_and_one_without_end_refused(
    server: Server, pieces: list[bytes], start: bytes, end: bytes
) -> None:
    found: list[bytes] = []

    def client() -> None:
        with socket.create_connection(server.address, timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
            found.append(b"".join(iter(lambda: connection.recv(65536), b"")))

    serve_while(server, client)
    assert found[0].startswith(start) and found[0].endswith(end)


def test_connections_are_bounded_in_number_and_time() -> None:
    now = 0.0
    with listen(at("127.0.0.1"), clock=lambda: now) as server:
        silent = [socket.create_connection(server.address, timeout=10) for _ in range(17)]
        for _ in silent:
            assert server.serve(lambda *_: b"")
        # The oldest gives way, or whoever says nothing would keep Prometheus out.
        assert silent[0].recv(1) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)
        now = 6.0
        assert not server.serve(lambda *_: b"")
        assert silent[1].recv(1) == b""
    for connection in silent:
        connection.close()


def test_a_client_that_leaves_is_forgotten(server: Server) -> None:
    with socket.create_connection(server.address, timeout=10) as connection:
        assert server.serve(lambda *_: b"")
        connection.sendall(b"GET /met")
    while server.serve(lambda *_: b""):
        pass


@pytest.mark.parametrize("address", ["192.0.2.77", "2001:db8::77"])
def test_an_address_that_comes_later_is_listened_on(address: str) -> None:
    with listen(at(address)) as server:
        assert server.address[0] == address


def test_a_port_that_is_taken_is_a_failure(server: Server) -> None:
    with command_error(Exit.IN_USE), listen(at(*server.address)):
        pass


def test_a_kernel_without_ipv6_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_arguments: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(socket, "socket", refuses)
    with command_error(Exit.SYSTEM, "cannot listen for metrics on [::1]:9464: Address family not"):
        listen(at("::1", 9464))


@pytest.fixture
def command() -> Arguments:
    made = Arguments(prog="daemon")
    metrics_argument.add(made)
    return made


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::]:1", ("::", 1)), ("0.0.0.0:1", ("0.0.0.0", 1))]
)
def test_an_address_to_listen_on(text: str, address: tuple[str, int], command: Arguments) -> None:
    found = command.parse_args(["--metrics", text]).metrics
    assert (str(found.address), found.port) == address


@pytest.mark.parametrize("text", ["", "9464", ":9464", "localhost:9464", "127.0.0.1:0", "::1:9464", "[127.0.0.1]:1"])
def test_an_address_that_leaves_a_doubt_is_refused(
    text: str, command: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "accepted: an address and a port" in usage_error(command.parse_args, ["--metrics", text], capsys)
