"""HTTP exchanges over the native converter that do not go one step after the other: clients that break off while the
server thinks, servers that answer in the midst of a request, and what they mean for both connections."""

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.netns.converter_clients import (
    PROTOCOLS,
    authority,
    hold,
    proxy,
    read_all,
    request,
    reset,
    seconds_to_reset,
    take,
    take_head,
)
from tests.netns.converter_far import far_link
from tests.netns.converter_messages import heard, respond
from tests.netns.converter_services import echo
from tests.netns.converter_world import (
    ALL,
    CLIENT,
    GATEWAY,
    MPTCP,
    PORTS,
    SERVER,
    TCP,
    Converter,
    Service,
    World,
    needs_tools,
)
from tests.netns.world import eventually

pytestmark = needs_tools

CONFIG = ALL + '[timeouts]\nrequest = "1s"\nidle = "60s"\n'
SIZE = 10_000_000
REASON = b"too large: " + bytes(range(32, 127)) * 200


@pytest.fixture(scope="module")
def far(conv: World) -> Iterator[str]:
    """The gateway's address at the end of a long way."""
    with far_link(conv) as address:
        yield address


def came(service: Service) -> socket.socket:
    """The server's end of the first connection that came."""
    eventually(lambda: service.connections)
    return service.connections[0]


# --- Clients that break off ---


@contextmanager
def thinking(net: World, protocol: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client whose POST, head and body in packets of their own, the server has whole and does not answer."""
    with net.serving(hold) as service, proxy(net, "absolute", protocol) as client:
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", "Content-Length: 100\r\n"))
        server = came(service)
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
    eventually(lambda: [line["outcome"] for line in running.lines()[lines:]] == ["client-reset"])
    assert running.status()["buffered_bytes"] == 0


@PROTOCOLS
def test_client_that_only_ends_its_direction_gets_its_response(net: World, protocol: int) -> None:
    """The control: an end is no reset."""
    with thinking(net, protocol) as (client, server):
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        respond(server, b"thought")
        assert heard(client)[1] == b"thought"


# --- Servers that answer early ---


def refusing(connection: socket.socket) -> None:
    """Answers to a head, reads nothing more, and closes: with bytes unread, which is a reset."""
    take_head(connection)
    respond(connection, REASON, b"Connection: close\r\n", b"413 Content Too Large")
    # What is not sent yet is lost with such a close.
    eventually(lambda: unacknowledged(connection) == 0)


def unacknowledged(connection: socket.socket) -> int:
    """Bytes that its peer has not acknowledged (tcp(7), SIOCOUTQ)."""
    (count,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    return int(count)


def upload(port: int, version: str) -> bytes:
    """The head of a PUT after which the client wants no other response."""
    at = authority(SERVER, port).decode()
    field = "Connection: close\r\n" if version == "1.1" else ""
    return f"PUT http://{at}/ HTTP/{version}\r\nHost: {at}\r\n{field}Content-Length: {SIZE}\r\n\r\n".encode()


def send_all_and_then_read(client: socket.socket, body: bytes) -> tuple[bytes, bytes]:
    """What comes to a client that does not listen before it has sent everything: a head and its content."""
    client.settimeout(30)
    client.sendall(body)
    head = take_head(client)
    content, ended = read_all(client)
    assert ended == "closed"
    return head, content


@pytest.mark.parametrize(
    ("way", "version", "protocol"),
    [("near", "1.1", MPTCP), ("near", "1.0", TCP), ("far", "1.1", TCP), ("far", "1.0", MPTCP)],
)
def test_client_that_sends_everything_first_gets_an_early_answer_whole(
    net: World, far: str, protocol: int, version: str, way: str
) -> None:
    host, source = (far, "10.0.3.2") if way == "far" else (GATEWAY, CLIENT)
    with net.serving(refusing) as service, net.connect(host, PORTS["http"], protocol, source) as client:
        client.sendall(upload(service.port, version))
        head, content = send_all_and_then_read(client, bytes(SIZE))
        assert head.startswith(b"HTTP/1.1 413 ")
        assert content == REASON


def trickle(client: socket.socket) -> None:
    """A head that never ends, for longer than it may take."""
    client.sendall(b"GET http://203.0.113.2/ HTTP/1.1\r\nX: ")
    for _ in range(30):
        time.sleep(0.1)
        client.sendall(b"x" * 100)


def upload_to(host: str, port: int) -> bytes:
    return request("absolute", host, port, "/", "PUT", f"Content-Length: {SIZE}\r\n") + bytes(SIZE)


@pytest.mark.parametrize(("status", "protocol"), [("403", TCP), ("408", MPTCP), ("502", TCP)])
def test_refusal_gets_a_long_way_though_the_client_goes_on_sending(
    net: World, far: str, protocol: int, status: str
) -> None:
    with net.connect(far, PORTS["http"], protocol, "10.0.3.2", seconds=30) as client:
        if status == "408":
            trickle(client)
        else:
            client.sendall(upload_to("10.9.8.7" if status == "403" else SERVER, 4))
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
    with net.serving(hold) as first, net.serving(echo) as second, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, first.port))
        server = came(first)
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
            client.sendall(b"by the tunnel")
            assert take(client, 13) == b"by the tunnel"
            eventually(lambda: not held(net, first.port))
    running.wait_until_idle()


def held(net: World, port: int) -> list[str]:
    """The gateway's connections to this port of the server's that still take memory of a process."""
    lines = net.gateway.run("ss", "-Htan", "dport", "=", f":{port}").splitlines()
    return [line for line in lines if not line.startswith("TIME-WAIT")]


# --- What is written of an exchange ---


def test_options_for_the_converter_is_logged_as_it_was_answered(net: World, running: Converter) -> None:
    before = len(running.lines())
    with proxy(net, "absolute") as client:
        client.sendall(b"OPTIONS * HTTP/1.1\r\nHost: converter\r\n\r\n")
        status = int(take_head(client).split()[1])
    eventually(lambda: len(running.lines()) > before)
    line = running.lines()[before]
    assert (line["outcome"], line["status"], status) == ("options", 204, 204)
