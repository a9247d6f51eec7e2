"""Requests that are malformed, ambiguous or too large: the native converter refuses them, and no SYN leaves."""

import socket
from contextlib import suppress

import pytest

from tests.netns.connections import read_all
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_world import ALL, World
from tests.netns.world import eventually

CONFIG = ALL + '[timeouts]\nrequest = "2s"\nconnect = "1s"\n'


HEAD = "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n"
HIDDEN = "GET http://{at}/hidden HTTP/1.1\r\nHost: {at}\r\n\r\n"
CHUNKED = HEAD + "Transfer-Encoding: chunked\r\n\r\n"
# Each could be read in two ways; behind each is a request that nobody shall see.
SMUGGLING = {
    "length-and-chunked": HEAD + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space-before-colon": HEAD + "Content-Length : 0\r\n\r\n",
    "identity-then-chunked": HEAD + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "chunk-without-end": CHUNKED + "1\r\nab0\r\n\r\n",
    "version-2": "GET http://{at}/ HTTP/2.0\r\nHost: {at}\r\n\r\n",
}


@pytest.mark.parametrize("vector", SMUGGLING)
def test_ambiguous_request_is_refused_and_hides_no_other(net: World, running: Converter, vector: str) -> None:
    seen: list[bytes] = []

    def origin(connection: socket.socket) -> None:
        connection.settimeout(0.2)
        data, _ = read_all(connection, 0.3)
        seen.append(data)

    with net.serving(origin) as service, net.proxy("absolute") as connection:
        at = f"{SERVER}:{service.port}"
        connection.sendall((SMUGGLING[vector] + HIDDEN).format(at=at).encode("latin-1"))
        data, ended = read_all(connection, 5)
        assert ended in ("closed", "reset")
        assert data.split()[1] in (b"400", b"501", b"505")
        assert data.count(b"\r\nContent-Length: ") == 1
        assert b"connection: close" in data.lower()
        eventually(lambda: len(seen) == len(service.peers))
    # Whoever got the head of a request whose content is wrong got nothing behind it.
    assert all(b"hidden" not in request and request.count(b"HTTP/1.1\r\n") <= 1 for request in seen)
    if "chunk-" not in vector:
        assert not seen
    assert running.status()["open_connections"] <= 1


@pytest.mark.parametrize("part", ["one-field", "many-fields", "target", "method"])
def test_head_of_a_megabyte_is_refused_and_takes_no_memory(net: World, running: Converter, part: str) -> None:
    big = b"a" * (1 << 20)
    start = b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n"
    head = {
        "one-field": start + b"X: " + big,
        "many-fields": start + b"".join(b"X-%d: %d\r\n" % (number, number) for number in range(10_000)),
        "target": b"GET http://203.0.113.2/" + big,
        "method": big,
    }[part]
    before = running.resident()
    for _ in range(20):
        with net.proxy("absolute") as connection:
            with suppress(ConnectionError):
                connection.sendall(head + b"\r\n\r\n")
            data, ended = read_all(connection, 5)
            assert ended in ("closed", "reset")
            # A client that sends more than is read for the answer's sake may lose the answer to a reset.
            assert data.split()[1:2] in ([b"431"], [b"414"], [b"400"], [b"501"], [])
    assert running.resident() - before < 4 << 20
    assert net.syns_to_servers() == []


@pytest.mark.parametrize("kind", ["socks5", "convert", "connect"])
@pytest.mark.parametrize("garbage", [b"\0" * 512, b"\xff" * 512, bytes(range(256)) * 4, b"\x16\x03\x01" + bytes(500)])
def test_garbage_ends_the_connection_and_nothing_else(
    net: World, running: Converter, kind: str, garbage: bytes
) -> None:
    with net.proxy(kind) as connection:
        connection.sendall(garbage)
        _, ended = read_all(connection, 5)
        assert ended in ("closed", "reset")
    running.wait_until_idle()
    assert net.syns_to_servers() == []
