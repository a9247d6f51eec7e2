"""How long the native converter waits for a request, and for a silent connection."""

import socket
import time
from contextlib import suppress
from itertools import cycle, product

import pytest

from tests.netns.converter_clients import (
    TUNNELS,
    convert_connect,
    convert_message,
    get,
    joined,
    proxy,
    request,
    seconds_to_reset,
    socks_request,
    take,
    take_head,
)
from tests.netns.converter_services import CONTENT, content
from tests.netns.converter_short_timeouts import net, running
from tests.netns.converter_world import MPTCP, SERVER, TCP, Converter, World, needs_tools
from tests.netns.world import eventually

__all__ = ["net", "running"]
pytestmark = needs_tools

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
    with proxy(net, listener, protocol) as client:
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
    with net.serving(content) as service, get(net, "absolute", service.port) as client:
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
    before = running.idle_descriptors()
    with joined(net, kind, protocol) as (client, server):
        ended, other = (client, server) if who == "client" else (server, client)
        ended.shutdown(socket.SHUT_WR)
        assert other.recv(1) == b""
        assert 0.4 < seconds_to_reset(other) < 2
        assert seconds_to_reset(ended) < 0.5
        running.wait_until_idle()
        assert running.descriptors() <= before
    eventually(lambda: [line["outcome"] for line in running.lines()] == ["idle-timeout"])


def test_open_and_silent_connection_is_not_reaped_before_its_time(net: World, running: Converter) -> None:
    with joined(net, "connect") as (client, server):
        time.sleep(1.5)
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        eventually(lambda: [one["up_bytes"] for one in running.status()["connections"]] == [1])
