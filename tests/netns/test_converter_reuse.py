"""The native converter's kept connections to servers: those that clients have left, and that serve others, and those of
clients that rest: whose they may be, for how long, and what may be sent again."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.netns.connections import Refused, read_all, reset, take, take_head
from tests.netns.converter_clients import request
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import Handler, fetch, path_of, respond
from tests.netns.converter_world import ALL, EXTRA, GATEWAY, Service, World
from tests.netns.world import eventually

# One thread: each has connections of its own.
CONFIG = "workers = 1\n" + ALL + EXTRA
REUSED = "tributary_converter_reused_upstreams_total"


@pytest.fixture(name="service")
def a_service(net: World) -> Iterator[Service]:
    """Answers each request with its path and the number of the connection."""
    with net.serving(lambda connection: answer(connection, service)) as service:
        yield service


def answer(connection: socket.socket, service: Service) -> None:
    number = len(service.connections)
    with suppress(Refused, IndexError):  # whose content is no request to this one
        while True:
            respond(connection, path_of(take_head(connection)) + b" %d" % number)


def ask(net: World, service: Service, path: str = "/", method: str = "GET", fields: str = "") -> bytes:
    """A client of its own asks once, and is told path and connection."""
    with net.proxy("absolute") as client:
        return fetch(client, service.port, path, method, fields)[1]


def test_next_client_is_served_by_the_connection_of_the_one_before(
    net: World, service: Service, running: Converter
) -> None:
    before = running.metrics()[REUSED]
    assert [ask(net, service, f"/{number}") for number in range(5)] == [b"/%d 1" % number for number in range(5)]
    assert running.metrics()[REUSED] - before == 4
    line, at = running.lines()[-1], f"{SERVER}:{service.port}"
    assert (line["target"], line["server"], line["outcome"]) == (at, at, "ok")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_client_that_ends_behind_its_answer_leaves_the_connection_to_the_next(
    net: World, service: Service, version: str
) -> None:
    for number in range(3):
        with net.proxy("absolute") as client:
            last = request("absolute", SERVER, service.port, f"/{number}", "GET", "Connection: close\r\n")
            client.sendall(last.replace(b"HTTP/1.1", b"HTTP/" + version.encode()))
            text, end = read_all(client)
            assert (text.endswith(b"/%d 1" % number), end) == (True, "closed")


@pytest.mark.parametrize(
    ("settings", "method", "by"),
    [('reuse = "never"', "GET", b"2"), ('reuse = "always"', "POST", b"1"), ("proxy_protocol = true", "GET", b"2")],
)
def test_settings_decide_who_uses_it(net: World, running: Converter, settings: str, method: str, by: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        number = len(service.connections)
        if "proxy_protocol" in settings:
            take(connection, 28)
        while True:
            take_head(connection)
            respond(connection, b"%d" % number)

    with running.reloaded(CONFIG + f"[upstream]\n{settings}\n"), net.serving(serve) as service:
        assert ask(net, service) == b"1"
        assert ask(net, service, "/", method, "Content-Length: 0\r\n" if method == "POST" else "") == by


def end(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def time_out(connection: socket.socket) -> None:
    """It was about to end the connection, and says so (RFC 9110 section 15.5.9)."""
    respond(connection, b"", b"Connection: close\r\n", b"408 Request Timeout")


@pytest.mark.parametrize("how", [end, reset, time_out])
def test_server_that_just_leaves_costs_the_next_client_nothing(
    net: World, how: Callable[[socket.socket], None]
) -> None:
    def serve(connection: socket.socket) -> None:
        is_first = len(service.connections) == 1
        respond(connection, path_of(take_head(connection)))
        path = path_of(take_head(connection))
        if is_first:
            how(connection)
        else:
            respond(connection, path)

    with net.serving(serve) as service:
        assert ask(net, service, "/first") == b"/first"
        assert ask(net, service, "/second") == b"/second"
        assert len(service.peers) == 2


@pytest.mark.parametrize(("ends", "seconds"), [(True, 2), (False, 9)], ids=["its-server-ends-it", "nobody-uses-it"])
def test_connection_is_closed_in_order_at_once_when_its_server_ends_it_and_after_some_seconds_of_rest(
    net: World, running: Converter, ends: bool, seconds: int
) -> None:
    over, ended = threading.Event(), list[str]()

    def serve(connection: socket.socket) -> None:
        respond(connection, path_of(take_head(connection)))
        over.wait(20)
        if ends:
            end(connection)
        ended.append(read_all(connection, 10)[1])

    before = running.idle_descriptors()
    with net.serving(serve) as service:
        ask(net, service)
        running.wait_until_idle()
        assert running.descriptors() == before + 1
        over.set()
        eventually(lambda: ended == ["closed"] and running.descriptors() == before, seconds)


# --- Whose it is ---


@pytest.mark.parametrize(
    ("to_server", "to_client"),
    [
        ("Authorization: NTLM TlRMTVNTUAAD\r\n", b""),
        ("", b"WWW-Authenticate: Basic realm=x, NTLM TlRMTVNTUAAC\r\n"),
    ],
)
def test_connection_that_a_client_has_logged_in_to_is_that_clients(
    net: World, to_server: str, to_client: bytes
) -> None:
    """What the server takes as another's words, since they come on the connection that he has logged in to."""

    def serve(connection: socket.socket) -> None:
        number = len(service.connections)
        while True:
            path = path_of(take_head(connection))
            respond(connection, b"%d" % number, to_client if path == b"/login" else b"")

    with net.serving(serve) as service:
        with net.proxy("absolute") as client:
            for path, fields in (("/login", to_server), ("/next", ""), ("/again", "")):
                assert fetch(client, service.port, path, "GET", fields)[1] == b"1"
        assert ask(net, service) == b"2"


def test_connection_is_not_another_listeners(net: World, service: Service) -> None:
    assert ask(net, service) == b"/ 1"
    with net.connect(GATEWAY, 3129) as client:
        assert fetch(client, service.port)[1] == b"/ 2"


HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ("Content-Length: 0\r\n", HIDDEN),
        (f"Content-Length: {len(HIDDEN)}\r\n", HIDDEN),
        ("Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        ("Connection: close\r\n", HIDDEN),
    ],
)
def test_no_client_hears_what_another_has_asked_for(net: World, service: Service, fields: str, body: bytes) -> None:
    """A request with another one hidden behind it, and then clients that ask for their own."""
    with net.proxy("absolute") as client:
        client.sendall(request("absolute", SERVER, service.port, "/first", "GET", fields) + body)
        read_all(client, 0.3)
    assert [ask(net, service, f"/{number}").split()[0] for number in range(3)] == [b"/0", b"/1", b"/2"]


@pytest.mark.parametrize(
    "more",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden", b"x", b"\r\n"],
    ids=["an answer", "a byte", "an empty line"],
)
def test_no_client_hears_what_a_server_has_said_to_another(net: World, more: bytes) -> None:
    """A server that says more than it was asked for, at once or while nobody asks."""

    def serve(connection: socket.socket) -> None:
        while True:
            path = path_of(take_head(connection))
            at_once = more if path == b"/now" else b""
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine" + at_once)
            if path == b"/later":
                time.sleep(0.05)
                connection.sendall(more)

    with net.serving(serve) as service:
        for path in ("/now", "/later", "/now", "/later"):
            assert ask(net, service, path) == b"mine"
            time.sleep(0.1)
            assert ask(net, service, "/next") == b"mine"


# --- Connections that are kept for their own clients: watched while those rest ---


@pytest.mark.parametrize("how", [end, reset, time_out], ids=["ends", "resets", "speaks"])
def test_connection_to_a_server_that_ends_it_is_closed_while_the_client_rests(
    net: World, running: Converter, how: Callable[[socket.socket], None]
) -> None:
    """Twenty clients rest behind an answer, and their servers end their connections: nothing of those stays, such as a
    CLOSE-WAIT for each until the client comes back (RFC 9112 section 9.5)."""

    def once(connection: socket.socket) -> None:
        respond(connection, path_of(take_head(connection)))
        answered.wait(20)
        how(connection)
        if how is not reset:
            # Nothing but the converter's end comes.
            with suppress(ConnectionError):
                connection.recv(1)
            ended.append(connection)

    answered = threading.Event()
    ended: list[socket.socket] = []
    before = running.descriptors()
    with net.serving(once) as service, ExitStack() as stack:
        clients = [stack.enter_context(net.proxy("absolute")) for _ in range(20)]
        for client in clients:
            fetch(client, service.port, "/first")
        assert running.descriptors() >= before + 40
        answered.set()
        eventually(lambda: running.descriptors() <= before + 20 and not net.held(service.port))
        eventually(lambda: how is reset or len(ended) == 20)
        # The clients notice nothing.
        for client in clients:
            assert fetch(client, service.port, "/second")[1] == b"/second"


# --- A kept connection that ends just when the next request is on its way ---


def leaving(seen: list[bytes], how: str, size: int = 0) -> Handler:
    """A server whose first connection ends when its second request, with so much content, is there; others answer."""
    first = threading.Event()

    def serve(connection: socket.socket) -> None:
        leaves = not first.is_set()
        first.set()
        respond(connection, path_of(take_head(connection)))
        seen.append(take_head(connection).split()[0])
        take(connection, size)
        if leaves and how == "reset":
            reset(connection)
        elif not leaves:
            respond(connection, b"again")

    return serve


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_what_may_be_repeated_is_asked_again_on_a_kept_connection_that_just_ends(
    net: World, how: str, method: str
) -> None:
    """A request by an idempotent method and without content, such as a DELETE (RFC 9110 section 9.2.2)."""
    seen: list[bytes] = []
    with net.serving(leaving(seen, how)) as service, net.proxy("absolute") as client:
        for path, by in ((b"/first", "GET"), (b"/second", method)):
            assert fetch(client, service.port, path.decode(), by)[1] == path
        assert (seen, len(service.peers)) == ([method.encode()], 2)
