"""Connections between converters that carry one transfer after another: ``gateway.reuse``."""

import os
import select
import socket
import struct
import time
from contextlib import AbstractContextManager, suppress
from threading import Event

import pytest

from tests.netns.connections import Refused, meanwhile, read_all, reset, take
from tests.netns.converter_clients import ALL_TUNNELS, convert_connect, convert_message, convert_reply
from tests.netns.converter_nodes import NODES, chain, node, via
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import Handler, echo, greet, take_request
from tests.netns.converter_world import ALL, CLIENTS, World
from tests.netns.world import eventually

REUSE, END = struct.pack("!BBH", 194, 1, 0), bytes(4)
"""The TLV that asks for frames, and the frame that ends a direction."""
READY, CLOSING = b"\xff" * 4, b"\xff\xff\xff\xfe"
"""What the one that is asked says behind its end: another request may follow, or none will be looked at."""
ONE_THREAD = "workers = 1\n"
BODY = bytes(range(256)) * 12_000


def frame(content: bytes) -> bytes:
    return struct.pack("!I", len(content)) + content


def reusing(conv: World, *keys: str) -> AbstractContextManager[list[Converter]]:
    """The converter that clients go to, which has one thread, and two behind it."""
    return chain(conv, "reuse = true", *keys, length=2, head=ONE_THREAD)


def ask(client: socket.socket, port: int, content: bytes = b"") -> None:
    """A request for a transfer in frames, which is granted; ``content`` goes with it."""
    client.sendall(convert_message(convert_connect(SERVER, port), REUSE) + content)
    assert convert_reply(client) == b""


def content_of(client: socket.socket) -> bytes:
    """That of the frames until the end of their direction."""
    content = b""
    while size := int.from_bytes(take(client, 4)):
        content += take(client, size)
    return content


def wait_for_ends(converters: list[Converter], count: int) -> None:
    """Until each has served so many clients, and the connections to it can be used again."""
    eventually(lambda: all(len(converter.served()) == count for converter in converters))
    time.sleep(0.1)


def ports(converter: Converter) -> set[int]:
    """From which its clients' connections came."""
    return {int(str(line["client"]).rsplit(":", 1)[1]) for line in converter.lines()}


@ALL_TUNNELS
@pytest.mark.parametrize("keys", [(), ("fast_open = true", "mptcp = false")], ids=["plain", "in-the-syn"])
def test_one_client_after_another_is_served_on_the_same_connections(
    conv: World, kind: str, keys: tuple[str, ...]
) -> None:
    with reusing(conv, *keys) as converters, conv.serving(greet) as service:
        for count in range(1, 7):
            assert conv.hears(kind, SERVER, service.port) == "hello"
            wait_for_ends(converters, count)
        assert len(service.peers) == 6
        # One may not be ready yet where the machine is busy.
        assert len(ports(converters[1])) <= 2
        assert len(ports(converters[2])) <= 1 + (os.cpu_count() or 1), "one by each thread of the converter before it"
        assert converters[0].metrics()["tributary_converter_reused_upstreams_total"] >= 4


@ALL_TUNNELS
def test_bytes_go_through_whole_each_way_ends_alone_and_the_log_counts_no_frames(conv: World, kind: str) -> None:
    with reusing(conv) as converters, conv.serving(echo) as service:
        for count in range(1, 4):
            with conv.opened(kind, SERVER, service.port, early=b"early ") as client:
                client.sendall(BODY)
                client.shutdown(socket.SHUT_WR)
                assert read_all(client) == (b"early " + BODY, "closed")
            wait_for_ends(converters, count)
        size = len(b"early " + BODY)
        for line in (line for each in converters for line in each.lines()):
            assert (line["outcome"], line["up_bytes"], line["down_bytes"]) == ("ok", size, size)


@pytest.mark.parametrize("kind", ["connect", "convert"])
def test_a_converter_that_starts_again_is_asked_on_a_new_connection(conv: World, kind: str) -> None:
    way = ONE_THREAD + via(NODES["first"], "reuse = true", 'fallback = "refuse"')
    with conv.converter(way) as converter, conv.serving(greet) as service:
        for _ in range(3):
            with node(conv, "first"):
                assert conv.hears(kind, SERVER, service.port) == "hello"
                assert conv.hears(kind, SERVER, service.port) == "hello"
        assert "is unavailable" not in converter.log


def test_where_the_path_has_died_a_new_connection_is_tried_before_the_next_converter_counts_as_away(
    conv: World,
) -> None:
    way = ONE_THREAD + via(NODES["first"], "reuse = true", 'timeout = "500ms"')
    port = NODES["first"].rsplit(":", 1)[1]
    with node(conv, "first") as behind, conv.converter(way) as converter, conv.serving(greet) as service:
        assert conv.hears("connect", SERVER, service.port) == "hello"
        eventually(lambda: behind.served() == ["ok"])
        with conv.filtered(conv.gateway, f"tcp dport {port} drop"):
            assert conv.hears("connect", SERVER, service.port) == "hello", "directly"
        assert "is unavailable: it does not answer" in converter.log


@pytest.mark.slow
def test_what_nobody_uses_is_closed_in_order_by_the_one_that_asks_and_later_by_the_one_that_is_asked(
    conv: World,
) -> None:
    """After 10 s and after 30: whoever may ask at any moment closes first, so that no request meets an end."""
    with reusing(conv) as converters, conv.serving(greet) as service, conv.proxy("convert") as client:
        ask(client, service.port, END)
        assert take(client, 17) == frame(b"hello") + END + READY
        begun = time.monotonic()
        wait_for_ends(converters, 1)
        time.sleep(12)
        assert conv.hears("connect", SERVER, service.port) == "hello"
        wait_for_ends(converters, 2)
        assert len(ports(converters[1])) == 2, "the first one has been closed"
        assert read_all(client, 25) == (CLOSING, "closed")
        assert 28 < time.monotonic() - begun < 35


def test_requests_follow_each_other_on_one_connection_in_frames(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(echo) as service, conv.proxy("convert") as client:
        for content in (b"one", b"two", b""):
            ask(client, service.port, (frame(content[:1]) + frame(content[1:]) if content else b"") + END)
            assert content_of(client) == content
            assert take(client, 4) == READY
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (CLOSING, "closed")
        eventually(lambda: converter.served() == ["ok"] * 3)


@pytest.mark.parametrize(
    "wrong",
    [frame(bytes(8))[:9], b"\xff\xff\xff\xff", END[:2], END + b"x"],
    ids=["cut-short", "too-long", "half-an-end", "behind-the-end"],
)
def test_what_is_no_frame_is_no_end_for_the_server(conv: World, wrong: bytes) -> None:
    ends: list[str] = []
    with (
        conv.converter(ALL) as converter,
        conv.serving(lambda connection: ends.append(read_all(connection)[1])) as service,
        conv.proxy("convert") as client,
    ):
        ask(client, service.port)
        client.sendall(wrong)
        with suppress(OSError):  # It is reset already.
            client.shutdown(socket.SHUT_WR)
        assert read_all(client)[1] == "reset"
        eventually(lambda: ends == ["reset"] and converter.served() == ["client-reset"])


def test_the_next_request_may_follow_once_the_server_has_all_of_the_one_before(conv: World) -> None:
    """The server has ended, and takes nothing for a while."""
    go_on, got = Event(), list[int]()

    def slow(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        go_on.wait(20)
        got.append(len(read_all(connection)[0]))

    with conv.converter(ALL), conv.serving(slow) as service, conv.proxy("convert") as client:
        client.settimeout(60)
        ask(client, service.port)
        assert take(client, 11) == frame(b"bye") + END
        # More than all buffers on the way hold.
        with meanwhile(client.sendall, 10 * frame(BODY) + END):
            assert select.select([client], [], [], 1) == ([], [], []), "no READY"
            go_on.set()
        assert take(client, 4) == READY
        eventually(lambda: got == [10 * len(BODY)])


def test_a_transfer_whose_server_takes_nothing_keeps_no_other_client_waiting(conv: World) -> None:
    go_on, got = Event(), list[int]()

    def slow_or_greet(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) != b"s":
            return greet(connection)
        connection.shutdown(socket.SHUT_WR)
        go_on.wait(30)
        got.append(len(read_all(connection)[0]))
        return None

    def upload(client: socket.socket) -> None:
        client.sendall(b"s" + 2 * BODY)
        client.shutdown(socket.SHUT_WR)

    with reusing(conv) as converters, conv.serving(slow_or_greet) as service:
        with conv.opened("connect", SERVER, service.port) as first, meanwhile(upload, first):
            assert read_all(first)[1] == "closed"
        for _ in range(3):
            with conv.opened("connect", SERVER, service.port) as other:
                other.sendall(b"x")
                assert take(other, 5) == b"hello"
                reset(other)
        go_on.set()
        eventually(lambda: got == [1 + 2 * len(BODY)])
        assert "is unavailable" not in converters[0].log


def next_converter(asked: list[bytes], does: str) -> Handler:
    """A converter that serves a request on each connection, and does this with the second of all.

    The content of the first frame of each goes to ``asked``.
    """

    def serve(connection: socket.socket) -> None:
        while True:
            take_request(connection)
            asked.append(take(connection, int.from_bytes(take(connection, 4))))
            if len(asked) == 2:
                if does == "reset":
                    reset(connection)
                elif does == "closing":
                    connection.sendall(CLOSING)
                return
            connection.sendall(convert_message() + frame(b"hello") + END)
            content_of(connection)
            connection.sendall(READY)

    return serve


@pytest.mark.parametrize(
    ("does", "heard", "requests"), [("closing", "hello", 3), ("reset", "convert 65", 2), ("ends", "convert 65", 2)]
)
def test_what_may_have_reached_the_server_is_not_sent_again(conv: World, does: str, heard: str, requests: int) -> None:
    """The next converter has a client's first bytes when a kept connection ends: it alone can say what it did."""
    asked: list[bytes] = []
    with conv.serving(next_converter(asked, does)) as service:
        way = via(f"{SERVER}:{service.port}", "reuse = true", "mptcp = false", 'fallback = "refuse"')
        with conv.converter(ONE_THREAD + way) as converter:
            assert conv.hears("convert", "203.0.113.9", 80, early=b"ask1") == "hello"
            wait_for_ends([converter], 1)
            assert conv.hears("convert", "203.0.113.9", 80, early=b"ask2") == heard
            assert "is unavailable" not in converter.log
    assert asked == [b"ask1", b"ask2", b"ask2"][:requests]


def test_the_next_transfer_is_served_by_the_settings_of_now(conv: World) -> None:
    way = ONE_THREAD + via(NODES["first"], "reuse = true")
    with node(conv, "first") as behind, conv.converter(way) as converter, conv.serving(greet) as service:
        assert conv.hears("connect", SERVER, service.port) == "hello"
        wait_for_ends([converter, behind], 1)
        listen = f'[[listen]]\nkind = "convert"\naddress = "{NODES["first"]}"\nvia_gateway = false\n'
        behind.reload(f'{CLIENTS}[metrics]\n[targets]\ndeny = ["{SERVER}/32"]\n{listen}')
        assert conv.hears("connect", SERVER, service.port) == "403"
        assert "is unavailable" not in converter.log


def test_a_client_whose_second_request_is_refused_is_told(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(greet) as service, conv.proxy("convert") as client:
        ask(client, service.port, END)
        assert take(client, 17) == frame(b"hello") + END + READY
        client.sendall(convert_message(convert_connect(SERVER, 4), REUSE))
        with pytest.raises(Refused, match="convert 96"):
            convert_reply(client)
        eventually(lambda: converter.served() == ["ok", "refused-by-server"])
