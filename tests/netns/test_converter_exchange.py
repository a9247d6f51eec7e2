"""HTTP exchanges over the native converter that do not go one step after the other: clients that break off while the
server thinks, servers that answer in the midst of a request, and what they mean for both connections."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from experiments.testbed import links
from experiments.testbed.network import standing_nodes
from experiments.testbed.topology import Profile, Topology
from tests.netns.connections import (
    MPTCP,
    TCP,
    clog,
    passes,
    read_all,
    reset,
    seconds_to_reset,
    take,
    take_head,
    unacknowledged,
)
from tests.netns.converter_clients import PROTOCOLS, authority, request
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import echo, fetch, fields_of, heard, hold, respond
from tests.netns.converter_world import ALL, CLIENT, GATEWAY, PORTS, World
from tests.netns.early_answers import SIZES, SMALL, EarlyAnswers, length_of
from tests.netns.world import eventually
from tributary.settings.files import check

CONFIG = ALL + '[timeouts]\nrequest = "1s"\nidle = "60s"\n'
SIZE = 10_000_000
REASON = b"too large: " + bytes(range(32, 127)) * 200


@pytest.fixture(scope="module")
def far(conv_built: World) -> Iterator[str]:
    """The gateway's address at the end of a link of 20 Mbit/s, 120 ms there and back, whose other end is 10.0.3.2."""
    settings = {"rate": "20mbit", "delay": "60ms", "queue": 400}
    (link,) = Topology.of(check({"links": {"far": settings}}, Profile, "the long way")).links
    with standing_nodes("conv-", "far:", conv_built.directory) as made:
        links.connect(link, conv_built.client, made["far"], conv_built.gateway, seed=1)
        conv_built.gateway.ip("address", "add", "10.0.3.1/24", "dev", "far")
        conv_built.client.ip("address", "add", "10.0.3.2/24", "dev", "far")
        yield "10.0.3.1"


# --- Clients that break off ---


@contextmanager
def thinking(net: World, protocol: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client whose POST, head and body in packets of their own, the server has whole and does not answer."""
    with net.serving(hold) as service, net.proxy("absolute", protocol) as client:
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", "Content-Length: 100\r\n"))
        server = service.connection()
        take_head(server)
        client.sendall(bytes(100))
        take(server, 100)
        try:
            yield client, server
        finally:
            server.close()


@pytest.mark.parametrize("before", ["", "pipelined", "flooded", "half-closed"])
@PROTOCOLS
def test_reset_of_a_client_reaches_the_server_that_still_thinks(
    net: World, running: Converter, protocol: int, before: str
) -> None:
    lines = len(running.lines())
    with thinking(net, protocol) as (client, server):
        if before == "pipelined":
            client.sendall(request("absolute", SERVER, 80, "/next"))
        elif before == "flooded":
            client.sendall(request("absolute", SERVER, 80, "/next", fields="X: " + "x" * 60_000))
        elif before == "half-closed":
            client.shutdown(socket.SHUT_WR)
        # Long enough for the converter to have seen it.
        time.sleep(0.2)
        reset(client)
        assert seconds_to_reset(server) < 1
        running.wait_until_idle(1)
    eventually(lambda: running.served()[lines:] == ["client-reset"])
    assert running.status()["buffered_bytes"] == 0


# --- Servers that answer early ---


def refusing(connection: socket.socket) -> None:
    """Answers to a head, reads nothing more, and closes: with bytes unread, which is a reset."""
    take_head(connection)
    respond(connection, REASON, b"Connection: close\r\n", b"413 Content Too Large")
    # What is not sent yet is lost with such a close.
    eventually(lambda: unacknowledged(connection) == 0)


def upload(port: int, version: str) -> bytes:
    """The head of a PUT after which the client wants no other response."""
    fields = f"Connection: close\r\nContent-Length: {SIZE}\r\n"
    return request("absolute", SERVER, port, "/", "PUT", fields).replace(b"HTTP/1.1", f"HTTP/{version}".encode())


@pytest.mark.parametrize(
    ("way", "version", "protocol"),
    [("near", "1.1", MPTCP), ("near", "1.0", TCP), ("far", "1.1", TCP), ("far", "1.0", MPTCP)],
)
def test_client_that_sends_everything_first_gets_an_early_answer_whole(
    net: World, far: str, protocol: int, version: str, way: str
) -> None:
    host, source = (far, "10.0.3.2") if way == "far" else (GATEWAY, CLIENT)
    with net.serving(refusing) as service, net.connect(host, PORTS["http"], protocol, source) as client:
        client.settimeout(30)
        client.sendall(upload(service.port, version) + bytes(SIZE))
        assert take_head(client).startswith(b"HTTP/1.1 413 ")
        assert read_all(client) == (REASON, "closed")


def test_answer_that_a_server_breaks_off_in_the_midst_of_an_upload_has_no_end(net: World, running: Converter) -> None:
    """It would end with its connection: the write that waits takes the reset's error, and the next read says 0."""
    has_broken = Event()

    def breaking(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\n\r\n")
        clog(connection)
        reset(connection)
        has_broken.set()

    lines = len(running.lines())
    with net.serving(breaking) as service, net.proxy("absolute") as client:
        client.sendall(upload(service.port, "1.1"))
        clog(client)
        assert has_broken.wait(10)
        assert take_head(client).startswith(b"HTTP/1.1 413 ")
        assert read_all(client)[1] == "reset"
    eventually(lambda: running.served()[lines:] == ["server-reset"])


def trickle(client: socket.socket) -> None:
    """A head that never ends, for longer than it may take."""
    client.sendall(b"GET http://203.0.113.2/ HTTP/1.1\r\nX: ")
    for _ in range(30):
        time.sleep(0.1)
        client.sendall(b"x" * 100)


@pytest.mark.parametrize(("status", "protocol"), [("403", TCP), ("408", MPTCP), ("502", TCP)])
def test_refusal_gets_a_long_way_though_the_client_goes_on_sending(
    net: World, far: str, protocol: int, status: str
) -> None:
    with net.connect(far, PORTS["http"], protocol, "10.0.3.2", seconds=30) as client:
        if status == "408":
            trickle(client)
        else:
            host = "10.9.8.7" if status == "403" else SERVER
            client.sendall(request("absolute", host, 4, "/", "PUT", f"Content-Length: {SIZE}\r\n") + bytes(SIZE))
        head, content = heard(client)
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert content
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"", "closed")


# --- Connections that become tunnels ---


@pytest.mark.parametrize("target", [SERVER, "203.0.113.77"], ids=["there", "away"])
def test_connect_does_not_hold_the_connection_of_the_request_before(
    net: World, running: Converter, target: str
) -> None:
    with net.serving(hold) as first, net.serving(echo) as second, net.proxy("absolute") as client:
        client.sendall(request("absolute", SERVER, first.port))
        server = first.connection()
        take_head(server)
        respond(server, b"kept")
        assert heard(client)[1] == b"kept"
        at = authority(target, second.port)
        client.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (at, at))
        # Nobody else needs it. Where nobody is at the address, the tunnel does not stand yet.
        server.settimeout(8)
        assert server.recv(1) == b""
        server.close()
        if target == SERVER:
            assert take_head(client).split()[1] == b"200"
            assert passes(client, client, b"by the tunnel")
            eventually(lambda: not net.held(first.port))
    running.wait_until_idle()


# --- Uploads that are answered early: nothing of the next request is taken for the rest of one ---

BODY = bytes(range(256)) * 20_000


def length(content: bytes) -> str:
    return f"Content-Length: {len(content)}\r\n"


@PROTOCOLS
def test_upload_that_is_answered_early_takes_nothing_from_the_next_request(
    net: World, running: Converter, protocol: int
) -> None:
    """The server reads nothing of a POST's content until it has answered by a 401 that keeps the connection, and then
    all of it, as nginx does. The content of the client's next request ends in a request that nobody has sent: it must
    never be served."""

    def post(path: bytes, content: bytes) -> bytes:
        return request("absolute", SERVER, service.port, path.decode(), "POST", length(content)) + content

    def passed_on() -> tuple[int, int]:
        status = running.status()
        return status["buffered_bytes"], sum(one["up_bytes"] for one in status["connections"])

    server, went_on = EarlyAnswers(), 0
    for size in SIZES:
        server.forget()
        with net.serving(server.serve, receive_buffer=SMALL) as service, net.proxy("absolute", protocol) as client:
            went_on += server.takes_nothing_of_the_next(client, post, size, passed_on, service.came)
    assert went_on, "of no size a part waited in the converter alone"


# --- The upload goes on, or its client knows that it does not ---


@pytest.mark.parametrize("fields", ["", "Expect: 100-continue\r\n"], ids=["", "expecting"])
@PROTOCOLS
def test_upload_whose_success_is_told_early_goes_on_to_its_end(
    net: World, running: Converter, protocol: int, fields: str
) -> None:
    """A server answers 200 when it has the head, and reads on (RFC 9110 section 10.1.1)."""
    seen: list[bytes] = []

    def early(connection: socket.socket) -> None:
        while True:
            head = take_head(connection)
            respond(connection, b"stored")
            seen.append(take(connection, length_of(head)))

    lines = len(running.lines())
    with net.serving(early, receive_buffer=SMALL) as service, net.proxy("absolute", protocol) as client:
        for count in (1, 2):
            head, content = fetch(client, service.port, "/", "POST", length(BODY) + fields)
            assert (head.split()[1], content) == (b"200", b"stored")
            assert b"connection" not in fields_of(head)
            client.sendall(BODY)
            eventually(lambda count=count: len(seen) == count)  # type: ignore[misc]
        assert len(service.peers) == 1
    assert seen == [BODY, BODY]
    eventually(lambda: len(running.lines()) == lines + 2)
    for line in running.lines()[lines:]:
        assert (line["outcome"], line["status"]) == ("ok", 200)
        assert line["up_bytes"] > len(BODY)
