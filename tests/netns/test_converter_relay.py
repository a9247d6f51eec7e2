"""What the native converter passes on, once and in order: bytes, ends and resets."""

import socket
import time
from itertools import cycle, product

import pytest

from tests.netns.converter_clients import (
    PROTOCOLS,
    TUNNELS,
    TUNNELS_IN_TURN,
    Refused,
    clog,
    get,
    joined,
    opened,
    read_all,
    reset,
    seconds_to_reset,
    take,
    take_head,
)
from tests.netns.converter_services import CONTENT, echo
from tests.netns.converter_short_timeouts import BUFFER, net, running
from tests.netns.converter_world import GATEWAY, MPTCP, SERVER, TCP, Converter, World, needs_tools
from tests.netns.world import eventually

__all__ = ["net", "running"]
pytestmark = needs_tools


@pytest.mark.parametrize("count", [1, 1000, 200_000])
@TUNNELS_IN_TURN
def test_bytes_behind_the_request_come_once_and_in_order(net: World, kind: str, count: int, protocol: int) -> None:
    early = (CONTENT * 2)[7 : 7 + count]
    with net.serving(echo) as service, opened(net, kind, SERVER, service.port, protocol, early=early) as client:
        client.sendall(b"later")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (early + b"later", "closed")


@pytest.mark.parametrize("kind", ["connect", "socks5", "convert"])
def test_bytes_behind_a_refused_request_reach_nobody(net: World, kind: str) -> None:
    with net.serving(echo) as service:
        with pytest.raises(Refused):
            opened(net, kind, GATEWAY, service.port, early=b"x" * 1000)
        assert service.peers == []


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("kind", ["connect", "redirect", "absolute"])
def test_urgent_data_come_in_their_place_and_hold_nothing_back(net: World, kind: str, way: str) -> None:
    """Bytes, an urgent one and more bytes, sent in one go, all come (RFC 9293 section 3.8.5)."""
    for _ in range(5):
        with joined(net, kind, TCP, way) as (client, server):
            writer, reader = (client, server) if way == "up" else (server, client)
            writer.sendall(b"abc")
            writer.send(b"X", socket.MSG_OOB)
            writer.sendall(b"def")
            assert take(reader, 7) == b"abcXdef"


@TUNNELS_IN_TURN
def test_client_ends_first_and_the_answer_still_comes(net: World, kind: str, protocol: int) -> None:
    def answer_at_the_end(connection: socket.socket) -> None:
        heard, _ = read_all(connection)
        connection.sendall(heard + CONTENT)

    with net.serving(answer_at_the_end) as service, opened(net, kind, SERVER, service.port, protocol) as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"question" + CONTENT, "closed")


@TUNNELS_IN_TURN
def test_server_ends_first_and_still_hears_everything(net: World, kind: str, protocol: int) -> None:
    heard: list[tuple[bytes, str]] = []

    def end_and_listen(connection: socket.socket) -> None:
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        heard.append(read_all(connection))

    with net.serving(end_and_listen) as service, opened(net, kind, SERVER, service.port, protocol) as client:
        assert read_all(client) == (b"question", "closed")
        client.settimeout(10)
        client.sendall(CONTENT)
        client.shutdown(socket.SHUT_WR)
        eventually(lambda: heard)
    assert heard == [(CONTENT, "closed")]


@PROTOCOLS
def test_client_that_ends_behind_its_request_gets_the_response(net: World, protocol: int) -> None:
    def late(connection: socket.socket) -> None:
        take_head(connection)
        time.sleep(0.2)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT)

    with net.serving(late) as service, get(net, "absolute", service.port, protocol=protocol) as client:
        client.shutdown(socket.SHUT_WR)
        head = take_head(client)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert read_all(client) == (CONTENT, "closed")


# One relay serves all kinds of tunnels; requests have an exchange of their own.
WAYS = [*product(("client", "server"), ("nothing", "up", "down"), (TCP, MPTCP))]


@pytest.mark.parametrize(
    ("kind", "who", "clogged", "protocol"),
    [("absolute", *way) for way in WAYS] + [(kind, *way) for kind, way in zip(cycle(TUNNELS), WAYS, strict=False)],
)
def test_reset_is_passed_on_within_a_second(
    net: World, running: Converter, kind: str, who: str, clogged: str, protocol: int
) -> None:
    before = running.idle_descriptors()
    with joined(net, kind, protocol, "up" if clogged == "up" else "down") as (client, server):
        if clogged != "nothing":
            assert clog(client if clogged == "up" else server) > BUFFER
        breaking, other = (client, server) if who == "client" else (server, client)
        reset(breaking)
        if kind == "absolute" and (who, clogged) == ("server", "up"):
            # There was no response yet, so that there can be one that says why.
            start = time.monotonic()
            assert take_head(client).startswith(b"HTTP/1.1 502 ")
            assert time.monotonic() - start < 1
            # What the client still sends would be taken for seconds.
            reset(client)
        else:
            assert seconds_to_reset(other) < 1
        running.wait_until_idle(3)
        eventually(lambda: running.descriptors() <= before)
    assert running.status()["buffered_bytes"] == 0
