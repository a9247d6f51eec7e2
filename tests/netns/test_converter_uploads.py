"""Servers that answer an upload before they have all of it, over the native converter: what that means for the upload,
for its client, and for the connection to the server."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.netns.converter_clients import PROTOCOLS, Refused, proxy, read_all, request, reset, take, take_head
from tests.netns.converter_messages import fields_of, heard, respond
from tests.netns.converter_world import ALL, SERVER, Converter, World, needs_tools
from tests.netns.early_answers import SMALL, TRAP, EarlyAnswers, length_of
from tests.netns.world import eventually

pytestmark = needs_tools

CONFIG = ALL
BODY = bytes(range(256)) * 20_000


def post(port: int, path: str, content: bytes, fields: str = "") -> bytes:
    head = request("absolute", SERVER, port, path, "POST", f"Content-Length: {len(content)}\r\n{fields}")
    return head + content


# --- Nothing of the next request is taken for the rest of it ---


@PROTOCOLS
def test_upload_that_is_answered_early_takes_nothing_from_the_next_request(
    net: World, running: Converter, protocol: int
) -> None:
    """The server reads nothing of a POST's content until it has answered by a 401 that keeps the connection, and then
    all of it, as nginx does. The content of the client's next request ends in a request that nobody has sent: it must
    never be served.

    How much the sockets take is not known beforehand, so uploads of several sizes are tried: some go into them whole,
    some wait in the converter in part, some wait at the client too."""
    server = EarlyAnswers()
    went_on = 0
    for size in range(40_000, 200_000, 10_000):
        server.forget()
        with net.serving(server.serve, receive_buffer=SMALL) as service, proxy(net, "absolute", protocol) as client:
            client.sendall(post(service.port, "/early", bytes(size)))
            wait_until_nothing_moves(running)
            waits = running.status()["buffered_bytes"] > 0
            server.may_answer.set()
            head, content = heard(client)
            server.may_read.set()
            assert (head.split()[1], content) == (b"401", b"no")
            if fields_of(head).get(b"connection") == b"close":
                continue
            went_on += waits
            client.sendall(post(service.port, "/next", TRAP))
            assert heard(client)[1] == b"done"
            assert len(service.peers) == (2 if waits else 1)
        assert server.paths == [b"/early", b"/next"]
    assert went_on, "of no size a part waited in the converter alone"


def wait_until_nothing_moves(running: Converter) -> None:
    """Until the converter has passed on, or keeps, what it can."""
    seen: list[tuple[int, int]] = []
    while len(seen) < 4 or len(set(seen[-4:])) > 1 or seen[-1] == (0, 0):
        status = running.status()
        seen.append((status["buffered_bytes"], sum(one["up_bytes"] for one in status["connections"])))
        time.sleep(0.02)


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
    with net.serving(early, receive_buffer=SMALL) as service, proxy(net, "absolute", protocol) as client:
        for count in (1, 2):
            asked = post(service.port, "/", BODY, fields)
            client.sendall(asked[: -len(BODY)])
            head, content = heard(client)
            assert (head.split()[1], content) == (b"200", b"stored")
            assert b"connection" not in fields_of(head)
            client.sendall(BODY)
            wait_for(seen, count)
        assert len(service.peers) == 1
    assert seen == [BODY, BODY]
    eventually(lambda: len(running.lines()) == lines + 2)
    for line in running.lines()[lines:]:
        assert (line["outcome"], line["status"]) == ("ok", 200)
        assert line["up_bytes"] > len(BODY)


def wait_for(seen: list[bytes], count: int) -> None:
    eventually(lambda: len(seen) == count, 20)


@pytest.mark.parametrize("how", ["closes", "resets"])
@PROTOCOLS
def test_upload_that_its_server_does_not_take_to_the_end_is_no_success(
    net: World, running: Converter, protocol: int, how: str
) -> None:
    """A server answers 200 when it has the head, reads a little, and goes."""

    def leaving(connection: socket.socket) -> None:
        take_head(connection)
        respond(connection, b"stored")
        told.wait(20)
        take(connection, 10_000)
        if how == "resets":
            reset(connection)

    told = threading.Event()
    lines = len(running.lines())
    with net.serving(leaving) as service, proxy(net, "absolute", protocol) as client:
        asked = post(service.port, "/", BODY)
        client.sendall(asked[: -len(BODY)])
        assert heard(client)[1] == b"stored"
        told.set()
        # It hears of the reset when it sends, or else when it reads.
        with pytest.raises(ConnectionError):
            send_and_read(client)
    eventually(lambda: len(running.lines()) > lines)
    assert [line["outcome"] for line in running.lines()[lines:]] == ["server-reset"]


def send_and_read(client: socket.socket) -> None:
    client.sendall(BODY)
    client.recv(1)


@PROTOCOLS
def test_client_whose_upload_is_refused_early_is_told_that_its_connection_ends(net: World, protocol: int) -> None:
    """What it sends after all would be taken for its next request: neither is that read, nor the rest passed on."""

    def refusing(connection: socket.socket) -> None:
        take_head(connection)
        respond(connection, b"not here", status=b"403 Forbidden")
        with suppress(Refused):
            while True:
                take(connection, 1)

    with net.serving(refusing) as service, proxy(net, "absolute", protocol) as client:
        asked = post(service.port, "/", BODY)
        client.sendall(asked[: -len(BODY)])
        head, content = heard(client)
        assert (head.split()[1], content) == (b"403", b"not here")
        assert fields_of(head)[b"connection"] == b"close"
        client.sendall(BODY + request("absolute", SERVER, service.port, "/next"))
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"", "closed")
        assert len(service.peers) == 1
