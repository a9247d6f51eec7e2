"""The native converter's kept connections to servers: watched while their clients rest, and used again only for what
may be sent again or for what follows at once."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from tests.netns.converter_clients import proxy, request, reset, take_head
from tests.netns.converter_messages import heard, path_of, respond
from tests.netns.converter_world import ALL, SERVER, Converter, Handler, World, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools

CONFIG = ALL
RESTED = 1.0
"""Seconds after which a kept connection takes nothing any more that may not be sent twice."""


# --- While the client rests ---


def end(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def speak(connection: socket.socket) -> None:
    """What nobody has asked for."""
    connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("how", [end, reset, speak], ids=["ends", "resets", "speaks"])
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
        clients = [stack.enter_context(proxy(net, "absolute")) for _ in range(20)]
        for client in clients:
            client.sendall(request("absolute", SERVER, service.port, "/first"))
            heard(client)
        assert running.descriptors() >= before + 40
        answered.set()
        eventually(lambda: running.descriptors() <= before + 20 and not open_to(net, service.port))
        eventually(lambda: how is reset or len(ended) == 20)
        # The clients notice nothing.
        for client in clients:
            client.sendall(request("absolute", SERVER, service.port, "/second"))
            assert heard(client)[1] == b"/second"


def open_to(net: World, port: int) -> list[str]:
    """The gateway's connections to this port of the server's that take memory of a process."""
    lines = net.gateway.run("ss", "-Htan", "dport", "=", f":{port}").splitlines()
    return [line for line in lines if not line.startswith(("TIME-WAIT", "FIN-WAIT"))]


# --- A kept connection that ends just when the next request is on its way ---


def leaving(seen: list[bytes], how: str) -> Handler:
    """A server whose first connection ends when its second request is there; others answer."""
    first = threading.Event()

    def serve(connection: socket.socket) -> None:
        leaves = not first.is_set()
        first.set()
        respond(connection, path_of(take_head(connection)))
        seen.append(take_head(connection).split()[0])
        if leaves:
            if how == "reset":
                reset(connection)
            return
        respond(connection, b"again")

    return serve


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_what_may_be_repeated_is_asked_again_on_a_kept_connection_that_just_ends(
    net: World, how: str, method: str
) -> None:
    """A request by an idempotent method and without content, such as a DELETE (RFC 9110 section 9.2.2)."""
    seen: list[bytes] = []
    with net.serving(leaving(seen, how)) as service, proxy(net, "absolute") as client:
        for path, by in ((b"/first", "GET"), (b"/second", method)):
            client.sendall(request("absolute", SERVER, service.port, path.decode(), by))
            assert heard(client)[1] == path
        assert (seen, len(service.peers)) == ([method.encode()], 2)


@pytest.mark.parametrize("how", ["end", "reset"])
def test_post_on_a_kept_connection_that_just_ends_is_not(net: World, how: str) -> None:
    seen: list[bytes] = []
    with net.serving(leaving(seen, how)) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port))
        heard(client)
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", "Content-Length: 0\r\n"))
        assert heard(client)[0].startswith(b"HTTP/1.1 502 ")
        assert (seen, len(service.peers)) == ([b"POST"], 1)


def test_get_that_nobody_answers_is_asked_twice_and_no_more(net: World) -> None:
    def never_again(connection: socket.socket) -> None:
        if len(service.connections) == 1:
            respond(connection, path_of(take_head(connection)))
        take_head(connection)

    with net.serving(never_again) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port))
        heard(client)
        client.sendall(request("absolute", SERVER, service.port))
        assert heard(client)[0].startswith(b"HTTP/1.1 502 ")
        assert len(service.peers) == 2


@pytest.mark.parametrize(("method", "content"), [("POST", b""), ("PATCH", b"abc"), ("DELETE", b"abc"), ("GET", b"")])
def test_what_may_not_be_repeated_takes_a_new_connection_when_the_kept_one_has_rested(
    net: World, method: str, content: bytes
) -> None:
    """A server may end a connection that rests just when the request is sent (RFC 9112 section 9.3.1)."""

    def serve(connection: socket.socket) -> None:
        while True:
            connection.recv(1 << 16)
            respond(connection, b"done")

    with net.serving(serve) as service, proxy(net, "absolute") as client:
        for rest in (0, 0, RESTED):
            time.sleep(rest)
            length = f"Content-Length: {len(content)}\r\n" if method != "GET" else ""
            client.sendall(request("absolute", SERVER, service.port, "/", method, length) + content)
            assert heard(client)[1] == b"done"
        assert len(service.peers) == (1 if method == "GET" else 2)
