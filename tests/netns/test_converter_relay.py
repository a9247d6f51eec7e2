import socket
import time
from contextlib import suppress
from itertools import cycle, product

import pytest

from tests.netns.connections import (
    MPTCP,
    TCP,
    Refused,
    clog,
    passes,
    read_all,
    reset,
    seconds_to_reset,
    take,
    take_head,
    unacknowledged,
)
from tests.netns.converter_clients import (
    TUNNELS,
    TUNNELS_IN_TURN,
    convert_connect,
    convert_message,
    request,
    socks_request,
)
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import CONTENT, Handler, chunks, content, dechunked, echo
from tests.netns.converter_world import BUFFER, GATEWAY, SHORT_TIMEOUTS, World
from tests.netns.world import eventually

CONFIG = SHORT_TIMEOUTS


@pytest.mark.parametrize("count", [1, 1000, 200_000])
@TUNNELS_IN_TURN
def test_bytes_behind_the_request_come_once_and_in_order(net: World, kind: str, count: int, protocol: int) -> None:
    early = (CONTENT * 2)[7 : 7 + count]
    with net.serving(echo) as service, net.opened(kind, SERVER, service.port, protocol, early=early) as client:
        client.sendall(b"later")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (early + b"later", "closed")


@pytest.mark.parametrize("kind", ["connect", "socks5", "convert"])
def test_bytes_behind_a_refused_request_reach_nobody(net: World, kind: str) -> None:
    with net.serving(echo) as service:
        with pytest.raises(Refused):
            net.opened(kind, GATEWAY, service.port, early=b"x" * 1000)
        assert service.peers == []


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("kind", ["connect", "redirect", "absolute"])
def test_urgent_data_come_in_their_place_and_hold_nothing_back(net: World, kind: str, way: str) -> None:
    """Bytes, an urgent one and more bytes, sent in one go, all come (RFC 9293 section 3.8.5)."""
    for _ in range(5):
        with net.joined(kind, TCP, way) as (client, server):
            writer, reader = (client, server) if way == "up" else (server, client)
            writer.sendall(b"abc")
            writer.send(b"X", socket.MSG_OOB)
            writer.sendall(b"def")
            assert take(reader, 7) == b"abcXdef"


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
    with net.joined(kind, protocol, "up" if clogged == "up" else "down") as (client, server):
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
        running.wait_until_idle(10)
        eventually(lambda: running.descriptors() <= before)
    assert running.status()["buffered_bytes"] == 0


@pytest.mark.parametrize(
    ("kind", "who", "protocol"),
    [
        *(("absolute", "server", protocol) for protocol in (TCP, MPTCP)),
        *(
            (kind, who, protocol)
            for kind, (who, protocol) in zip(
                TUNNELS * 2, cycle(product(("server", "client"), (TCP, MPTCP))), strict=False
            )
        ),
    ],
)
def test_what_came_before_a_reset_gets_to_a_slow_reader(
    net: World, running: Converter, kind: str, who: str, protocol: int
) -> None:
    lines = len(running.lines())
    with net.joined(kind, protocol) as (client, server):
        breaking, other = (client, server) if who == "client" else (server, client)
        sent = clog(breaking)
        came = sent - unacknowledged(breaking)
        assert came > BUFFER
        reset(breaking)
        time.sleep(0.2)
        data, end = read_all(other)
        assert (len(data) >= came, end) == (True, "reset")
        running.wait_until_idle()
    eventually(lambda: running.served()[lines:] == [f"{who}-reset"])
    assert running.status()["buffered_bytes"] == 0


def whole_and_reset(framing: str, served: list[int]) -> Handler:
    """Answers with BEFORE_RESET in this ``framing``, and resets the connection once all of it was taken."""
    heads = {"length": f"Content-Length: {len(BEFORE_RESET)}", "chunked": "Transfer-Encoding: chunked"}
    body = chunks(BEFORE_RESET, 50_000) if framing == "chunked" else BEFORE_RESET

    def serve(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(f"HTTP/1.1 200 OK\r\n{heads.get(framing, 'Connection: close')}\r\n\r\n".encode() + body)
        eventually(lambda: unacknowledged(connection) == 0)
        reset(connection)
        served.append(len(body))

    return serve


BEFORE_RESET = CONTENT[:330_000]


@pytest.mark.parametrize(("framing", "protocol"), [*product(("length", "chunked", "close"), (TCP, MPTCP))])
def test_response_that_is_whole_before_the_servers_reset_gets_to_a_slow_client_whole(
    net: World, framing: str, protocol: int
) -> None:
    served: list[int] = []
    with (
        net.serving(whole_and_reset(framing, served)) as service,
        net.opened("absolute", SERVER, service.port, protocol) as client,
    ):
        for _ in range(1 if framing == "close" else 2):
            client.sendall(request("absolute", SERVER, service.port))
            eventually(lambda: len(served) > 0)
            time.sleep(0.2)
            take_head(client)
            if framing == "close":
                # Of such a response nobody knows that it is whole.
                assert read_all(client) == (BEFORE_RESET, "reset")
            else:
                assert (dechunked(client) if framing == "chunked" else take(client, len(BEFORE_RESET))) == BEFORE_RESET
            served.clear()


# --- How long it waits for a request, and for a silent connection ---

SLOW = {
    "http": b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
    "connect": b"CONNECT 203.0.113.2:80 HTTP/1.1\r\nHost: 203.0.113.2:80\r\n\r\n",
    "socks5": b"\5\1\0" + socks_request("a-name-of-some-length.test", 80),
    "convert": convert_message(convert_connect(SERVER, 80)),
}


@pytest.mark.parametrize(("first", "protocol"), [(0, TCP), (10, MPTCP)])
@pytest.mark.parametrize("kind", SLOW)
def test_request_that_trickles_in_ends_at_an_absolute_limit(net: World, kind: str, first: int, protocol: int) -> None:
    listener = {"http": "absolute"}.get(kind, kind)
    start = time.monotonic()
    with net.proxy(listener, protocol) as client:
        client.sendall(SLOW[kind][:first])
        client.settimeout(0.15)
        data, sent = b"", first
        with suppress(ConnectionError):
            while time.monotonic() - start < 5:
                try:
                    data += (more := client.recv(1000))
                    if not more:
                        break
                except TimeoutError:
                    if first:
                        client.sendall(SLOW[kind][sent : sent + 1])
                        sent += 1
    assert 0.5 < time.monotonic() - start < 2
    assert data.startswith(b"HTTP/1.1 408 ") == (kind in ("http", "connect"))
    assert b"200" not in data


def test_second_request_on_a_connection_has_its_limit_from_its_first_byte(net: World) -> None:
    with net.serving(content) as service, net.get("absolute", service.port) as client:
        take_head(client)
        take(client, len(CONTENT))
        # Longer than a request may take: it has not begun.
        time.sleep(1)
        client.sendall(request("absolute", SERVER, service.port))
        assert take_head(client).startswith(b"HTTP/1.1 200 ")
        take(client, len(CONTENT))
        client.sendall(b"G")
        start = time.monotonic()
        assert take_head(client).startswith(b"HTTP/1.1 408 ")
        assert 0.5 < time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("kind", "who", "protocol"),
    [
        (kind, who, protocol)
        for (who, kind), protocol in zip(product(("client", "server"), TUNNELS), cycle((TCP, MPTCP)), strict=False)
    ],
)
def test_half_closed_and_silent_connection_is_reaped(
    net: World, running: Converter, kind: str, who: str, protocol: int
) -> None:
    before, lines = running.idle_descriptors(), len(running.lines())
    with net.joined(kind, protocol) as (client, server):
        ended, other = (client, server) if who == "client" else (server, client)
        ended.shutdown(socket.SHUT_WR)
        assert other.recv(1) == b""
        assert 0.4 < seconds_to_reset(other) < 2
        assert seconds_to_reset(ended) < 0.5
        running.wait_until_idle()
        assert running.descriptors() <= before
    eventually(lambda: running.served()[lines:] == ["idle-timeout"])


def test_open_and_silent_connection_is_not_reaped_before_its_time(net: World, running: Converter) -> None:
    with net.joined("connect") as (client, server):
        time.sleep(1.5)
        assert passes(client, server)
        eventually(lambda: [one["up_bytes"] for one in running.status()["connections"]] == [1])
