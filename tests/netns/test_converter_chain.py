"""Converters that connect through each other: chains, routes by the server's network, and circles."""

import os
import signal
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.netns.converter_clients import (
    KINDS,
    PROTOCOLS,
    Refused,
    authority,
    convert_connect,
    convert_message,
    convert_reply,
    hears,
    opened,
    proxy,
    read_all,
    take,
    take_head,
)
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, NODES, gateway, gateway_by, node, route, served
from tests.netns.converter_services import SERVED, SERVICE, echo, greet
from tests.netns.converter_world import ALL, GATEWAY, SERVER, SERVER6, Converter, World, needs_tools, start
from tests.netns.world import eventually

pytestmark = needs_tools

_PASSED, _AHEAD = 192, 193


@contextmanager
def chain(conv: World, *keys: str) -> Iterator[list[Converter]]:
    """The converter that clients go to, and NODES behind it, one after the other."""
    first, second, third = NODES.values()
    with ExitStack() as stack:
        yield [
            stack.enter_context(conv.converter(ALL_VIA_GATEWAY + gateway(first, *keys))),
            stack.enter_context(node(conv, "first", gateway(second, *keys))),
            stack.enter_context(node(conv, "second", gateway(third, *keys))),
            stack.enter_context(node(conv, "third")),
        ]


@pytest.mark.parametrize(
    ("kind", "keys"),
    zip(KINDS, cycle([(), ("loop_check = true",), ("fast_open = true", "loop_check = true")]), strict=False),
)
def test_clients_are_served_by_a_chain_of_four(conv: World, kind: str, keys: tuple[str, ...]) -> None:
    with chain(conv, *keys) as converters, conv.serving(SERVICE[kind]) as service:
        for host in (SERVER, SERVER6):
            assert hears(conv, kind, host, service.port) == SERVED[kind]
        eventually(lambda: all(len(served(converter)) == 2 for converter in converters))
        assert {line["server"] for line in converters[-1].lines()} == {
            f"{SERVER}:{service.port}",
            f"[{SERVER6}]:{service.port}",
        }


def test_what_the_last_one_hears_is_what_the_client_is_told(conv: World) -> None:
    with chain(conv, "loop_check = true") as converters:
        assert hears(conv, "convert", SERVER, 4) == "convert 96"
        assert hears(conv, "socks5", SERVER, 4) == "socks 5"
        assert hears(conv, "connect", "10.7.0.2", 4) == "403"
        eventually(lambda: all(map(served, converters)))
        assert all(served(converter)[0] == "refused-by-server" for converter in converters)


@pytest.mark.parametrize("host", [SERVER, SERVER6])
def test_a_network_goes_its_own_way(conv: World, host: str) -> None:
    routes = route("203.0.113.0/24", NODES["second"]) + route("2001:db8::/64", "direct")
    with (
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"]) + routes) as converter,
        conv.serving(greet) as service,
    ):
        assert hears(conv, "connect", host, service.port) == "hello"
        eventually(lambda: served(converter) and (host != SERVER or served(second)))
        assert first.lines() == []
        assert [line["target"] for line in second.lines()] == ([f"{SERVER}:{service.port}"] if host == SERVER else [])


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5", "convert", "tproxy"])
def test_a_port_goes_its_own_way(conv: World, kind: str) -> None:
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.serving(SERVICE[kind]) as one,
        conv.serving(SERVICE[kind]) as other,
    ):
        routes = f"203.0.113.0/24 port {other.port} {NODES['second']}\n203.0.113.0/24 {NODES['first']}\n"
        with conv.converter(ALL_VIA_GATEWAY + gateway_by(Path(directory), routes)):
            for service in (one, other):
                assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
            eventually(lambda: served(first) and served(second))
        assert [line["target"] for line in first.lines()] == [f"{SERVER}:{one.port}"]
        assert [line["target"] for line in second.lines()] == [f"{SERVER}:{other.port}"]


def _sized(path: str, length: int = 0) -> bytes:
    """A request, with so much content if there is some."""
    method = "PUT" if length else "GET"
    declared = f"Content-Length: {length}\r\n" if length else ""
    return f"{method} http://{SERVER}:%d{path} HTTP/1.1\r\nHost: {SERVER}\r\n{declared}\r\n".encode() + bytes(length)


_SIZES = """
[[gateway.sizes]]
path = "/small/*"
size = "15kB"
[[gateway.sizes]]
method = "GET"
path = "*.iso"
size = "45001B"
"""


@pytest.mark.parametrize(
    ("request_", "way", "size"),
    [
        # What is not known goes as before.
        (_sized("/film"), "first", None),
        (_sized("/small/film.iso"), "first", {"bytes": 15_000, "by": "path"}),
        (_sized("/film.iso?a=b"), "second", {"bytes": 45_001, "by": "path"}),
        # What the request says of itself counts before its path.
        (_sized("/small/film", 45_001), "second", {"bytes": 45_001, "by": "content-length"}),
        (_sized("/film.iso", 45_000), "first", {"bytes": 45_000, "by": "content-length"}),
    ],
    ids=["unknown", "small-path", "large-path", "large-content", "small-content"],
)
def test_a_request_of_known_size_goes_the_way_for_it(conv: World, request_: bytes, way: str, size: object) -> None:
    def answer(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    routes = f"203.0.113.0/24 {NODES['first']}\n203.0.113.0/24 above 45kB {NODES['second']}\n"
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.serving(answer) as service,
        conv.converter(ALL_VIA_GATEWAY + gateway_by(Path(directory), routes) + _SIZES) as converter,
        proxy(conv, "absolute") as client,
    ):
        client.sendall(request_.replace(b"%d", str(service.port).encode()))
        assert take_head(client).startswith(b"HTTP/1.1 204 ")
        passed, other = (first, second) if way == "first" else (second, first)
        client.close()
        eventually(lambda: served(passed) and served(converter))
        assert served(other) == []
        assert converter.lines()[0].get("size") == size


def test_a_name_goes_the_way_of_its_addresses(conv: World) -> None:
    """The first address' converter says that the server refuses; the next address is reached without one."""
    conv.names.records["two.test"] = [SERVER6, SERVER]
    refusing = "type filter hook input priority 0; tcp dport 8000-8999 reject with tcp reset;"
    conv.nft(f"table ip6 dead {{ chain in {{ {refusing} }}; }}", conv.server)
    try:
        with (
            node(conv, "first") as first,
            conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"]) + route("203.0.113.0/24", "direct")),
            conv.serving(greet) as service,
        ):
            assert hears(conv, "connect", "two.test", service.port) == "hello"
            eventually(lambda: served(first) == ["refused-by-server"])
    finally:
        conv.nft("delete table ip6 dead", conv.server)


def test_a_converter_that_is_away_keeps_no_other_one_from_working(conv: World) -> None:
    way = gateway(NODES["first"], 'fallback = "refuse"') + route("2001:db8::/64", NODES["second"])
    with node(conv, "second"), conv.converter(ALL_VIA_GATEWAY + way) as converter, conv.serving(greet) as service:
        for _ in range(2):
            assert hears(conv, "connect", SERVER, service.port) == "502"
            assert hears(conv, "connect", SERVER6, service.port) == "hello"
        assert converter.log.count(f"gateway {NODES['first']} is unavailable") == 1
        assert NODES["second"] not in converter.log


def test_the_table_is_replaced_while_connections_stand(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as directory, ExitStack() as stack:
        table = Path(directory, "routes")
        table.write_text(f"# by the controller\n203.0.113.0/24 {NODES['first']}\n")
        config = ALL_VIA_GATEWAY + gateway(NODES["third"], f'routes_file = "{table}"')
        first, second = (stack.enter_context(node(conv, name)) for name in ("first", "second"))
        converter = stack.enter_context(conv.converter(config))
        service = stack.enter_context(conv.serving(echo))
        with opened(conv, "connect", SERVER, service.port) as before:
            table.write_text(f"203.0.113.0/24 {NODES['second']}\n")
            assert "not reloaded" not in converter.reload(config)
            with opened(conv, "connect", SERVER, service.port) as after:
                for client in (before, after):
                    client.sendall(b"still there?")
                    assert take(client, 12) == b"still there?"
        eventually(lambda: served(first) == served(second) == ["ok"])


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("203.0.113.0/24 nowhere\n", ["routes:1", "nowhere", "direct"]),
        ("\n203.0.113.0/24\n", ["routes:2", "203.0.113.0/24", "a next converter"]),
        ("10.0.0.0/33 direct\n", ["routes:1", "10.0.0.0/33", "prefix length"]),
        ("10.0.0.0/8 port 0 direct\n", ["routes:1", "port 0 direct", "1 to 65535"]),
        ("10.0.0.0/8 192.0.2.1:1 192.0.2.1:1\n", ["routes:1", "192.0.2.1:1 192.0.2.1:1", "each once"]),
        ("203.0.113.0/24 direct\n203.0.113.0/24 direct\n", ["203.0.113.0/24", "each network once"]),
        ("10.0.0.0/8 above 9 direct\n", ["routes:1", "above 9 direct", "a size, such as"]),
        ("10.0.0.0/8 above 1B direct\n", ["10.0.0.0/8 above 1B", "a route of the same network and port without it"]),
        (
            "".join(f"10.0.0.0/8 above {size}kB direct\n" for size in range(65)) + "10.0.0.0/8 direct\n",
            ["65 sizes", "at most 64"],
        ),
        ("10.0.0.0/8 port 22 direct\n" * 2, ["10.0.0.0/8 port 22", "each network once for a port"]),
        (f"203.0.113.0/24 {GATEWAY}:4000\n", [f"gateway = {GATEWAY}:4000", "a listener of this one"]),
        (None, ["routes", "No such file"]),
    ],
)
def test_a_wrong_table_is_named_and_the_old_one_stays(conv: World, table: str | None, parts: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as directory:
        file = Path(directory, "routes")
        file.write_text("203.0.113.0/24 direct\n")
        own = f'[[listen]]\nkind = "http"\naddress = "{GATEWAY}:4000"\n'
        config = ALL_VIA_GATEWAY + own + gateway(NODES["first"], 'fallback = "refuse"', f'routes_file = "{file}"')
        with conv.converter(config) as converter, conv.serving(greet) as service:
            if table is None:
                file.unlink()
            else:
                file.write_text(table)
            log = converter.reload(config)
            assert "not reloaded, everything stays as it was" in log
            assert all(part in log for part in parts), log
            assert hears(conv, "connect", SERVER, service.port) == "hello"
        refused = start(conv.gateway, Path(directory), config)
        assert refused.popen.wait(10) == (66 if table is None else 64)
        assert all(part in refused.log for part in parts), refused.log


@pytest.mark.parametrize("kind", ["convert", "connect", "socks5", "tproxy"])
def test_a_circle_is_refused_where_it_closes(conv: World, kind: str) -> None:
    heard = {"convert": "convert 97", "connect": "502", "socks5": "socks 3", "tproxy": "reset"}
    with (
        node(conv, "first", gateway(NODES["second"], "loop_check = true")) as first,
        node(conv, "second", gateway(NODES["third"], "loop_check = true")) as second,
        node(conv, "third", gateway(NODES["first"], "loop_check = true")) as third,
        conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"])) as converter,
    ):
        assert hears(conv, kind, SERVER, 8000) == heard[kind]
        # Each writes its lines when it comes to it.
        eventually(lambda: served(converter) and len(served(first)) == 2 and served(second) and served(third))
        assert (served(second), served(third)) == (["unreachable"], ["unreachable"])
        assert served(first) == ["loop", "unreachable"]


MEMBER = f'[gateway]\nconverters = ["{GATEWAY}/32"]\n'
"""A converter that others may send a named chain through."""


def named(*ways: str) -> str:
    """The first converter's, with these ways to SERVER, each of names of NODES."""
    texts = [" ".join(NODES.get(name, name) for name in way.split()) for way in ways]
    return ALL_VIA_GATEWAY + '[gateway]\nfallback = "refuse"\n' + route(f"{SERVER}/32", " or ".join(texts))


@pytest.mark.parametrize(
    ("kind", "keys"), zip(KINDS, cycle(["", "fast_open = true\nloop_check = true\n"]), strict=False)
)
def test_the_first_converter_names_the_chain(conv: World, kind: str, keys: str) -> None:
    config = named("first third second").replace("fallback", f"{keys}fallback")
    with ExitStack() as stack:
        nodes = [stack.enter_context(node(conv, name, MEMBER + keys)) for name in ("first", "third", "second")]
        stack.enter_context(conv.converter(config))
        service = stack.enter_context(conv.serving(SERVICE[kind]))
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
        eventually(lambda: all(map(served, nodes)))
        servers = [line["server"] for each in nodes for line in each.lines()]
        assert servers == [f"{SERVER}:{service.port}"] * 3


def test_the_last_one_named_connects_to_the_server_whatever_its_own_routes_are(conv: World) -> None:
    elsewhere = gateway(NODES["third"], f'converters = ["{GATEWAY}/32"]')
    with (
        node(conv, "first", MEMBER),
        node(conv, "second", elsewhere) as last,
        node(conv, "third") as third,
        conv.converter(named("first second")),
        conv.serving(greet) as service,
    ):
        assert hears(conv, "connect", SERVER, service.port) == "hello"
        eventually(lambda: served(last))
        assert third.lines() == []


def test_the_next_best_way_serves_the_same_connection_where_a_converter_behind_the_next_one_is_away(
    conv: World,
) -> None:
    with (
        node(conv, "first", MEMBER) as first,
        node(conv, "third", MEMBER) as third,
        conv.converter(named("first second", "first third")) as converter,
        conv.serving(greet) as service,
    ):
        for _ in range(2):
            assert hears(conv, "connect", SERVER, service.port) == "hello"
        eventually(lambda: len(served(third)) == 2 and len(served(first)) == 4)
        assert sorted(served(first)) == ["gateway-unavailable", "gateway-unavailable", "ok", "ok"]
        assert "is unavailable" not in converter.log, "the next one works"


@contextmanager
def hanging(converter: Converter) -> Iterator[None]:
    """Its kernel goes on: it takes connections, and acknowledges what they bring."""
    os.kill(converter.pid, signal.SIGSTOP)
    # One thread takes the signal and stops the others, which may go on until then.
    threads = Path(f"/proc/{converter.pid}/task").iterdir
    eventually(lambda: all(") T " in (each / "stat").read_text() for each in threads()))
    try:
        yield
    finally:
        os.kill(converter.pid, signal.SIGCONT)


@pytest.mark.parametrize("keys", ["", "fast_open = true\nmptcp = false\n"], ids=["plain", "in-the-syn"])
def test_the_next_best_way_serves_the_same_connection_where_the_next_converter_hangs(conv: World, keys: str) -> None:
    config = named("second third", "first third").replace("fallback", f'{keys}timeout = "500ms"\nfallback')
    with (
        node(conv, "first", MEMBER + keys) as first,
        node(conv, "second", MEMBER + keys) as second,
        node(conv, "third", MEMBER + keys),
        conv.converter(config) as converter,
        conv.serving(greet) as service,
    ):
        with hanging(second):
            assert hears(conv, "connect", SERVER, service.port) == "hello"
        assert hears(conv, "connect", SERVER, service.port) == "hello"
        # What it was asked for in the meantime it does not do when it goes on.
        eventually(lambda: len(served(second)) == 2)
        assert sorted(served(second)) == ["client-gone", "ok"]
        assert served(first) == ["ok"]
        assert len(service.peers) == 2
        assert "is unavailable" not in converter.log, "it could as well have been the server"


def test_without_a_way_that_works_the_client_is_refused(conv: World) -> None:
    with node(conv, "first", MEMBER), conv.converter(named("third first", "first second")):
        assert hears(conv, "connect", SERVER, 8000) == "502"


def ahead(*converters: str) -> bytes:
    """The TLV of type 193, as a client that forges it would write it."""
    addresses = b""
    for converter in converters:
        host, port = converter.rsplit(":", 1)
        mapped = bytes(10) + b"\xff\xff" + socket.inet_aton(host)
        addresses += struct.pack("!HH16s", 0, int(port), mapped)
    return struct.pack("!BBH", _AHEAD, 1 + len(addresses) // 4, 0) + addresses


@pytest.mark.parametrize("names", [(), ("second",)], ids=["none", "one"])
def test_a_client_names_no_chain(conv: World, names: tuple[str, ...]) -> None:
    with (
        node(conv, "second", MEMBER) as second,
        conv.converter(ALL + MEMBER) as converter,
        conv.serving(greet) as service,
        proxy(conv, "convert") as client,
    ):
        forged = ahead(*(NODES[name] for name in names))
        client.sendall(convert_message(convert_connect(SERVER, service.port), forged))
        with pytest.raises(Refused, match="convert 32"):
            convert_reply(client)
        eventually(lambda: served(converter) == ["chain-forbidden"])
        assert second.lines() == []


def test_a_chain_with_a_stranger_in_it_goes_nowhere(conv: World) -> None:
    stranger = f"{SERVER}:2301"
    with (
        node(conv, "first", MEMBER) as first,
        conv.converter(named(f"first {stranger}")),
        conv.serving(greet) as service,
    ):
        assert hears(conv, "convert", SERVER, service.port) == "convert 32"
        eventually(lambda: served(first) == ["chain-forbidden"])


def passed(*numbers: int) -> bytes:
    return struct.pack(f"!BBH{len(numbers)}Q", _PASSED, 1 + 2 * len(numbers), 0, *numbers)


@pytest.mark.parametrize(("count", "heard"), [(15, "hello"), (16, "convert 97")])
def test_no_chain_is_longer_than_sixteen(conv: World, count: int, heard: str) -> None:
    with conv.converter(ALL), conv.serving(greet) as service, proxy(conv, "convert") as client:
        client.sendall(convert_message(convert_connect(SERVER, service.port), passed(*range(count))))
        if heard == "hello":
            assert convert_reply(client) == b""
            assert take(client, 5) == b"hello"
        else:
            with pytest.raises(Refused, match=heard):
                convert_reply(client)


SWITCH = b"GET http://%s/ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize("keys", [(), ("loop_check = true",), ("fast_open = true",)], ids=" ".join)
@PROTOCOLS
def test_bytes_behind_an_upgrade_reach_the_server_once_by_way_of_a_gateway(
    conv: World, keys: tuple[str, ...], protocol: int
) -> None:
    frames = [b"first frame;", b"second frame;", b"third"]
    got: list[bytes] = []

    def websocket(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(SWITCHING)
        got.append(read_all(connection)[0])
        connection.sendall(b"bye")

    way = ALL_VIA_GATEWAY + gateway(NODES["first"], *keys)
    with node(conv, "first"), conv.converter(way), conv.serving(websocket) as service:
        at = authority(SERVER, service.port)
        with proxy(conv, "absolute", protocol) as client:
            client.sendall(SWITCH % (at, at) + frames[0])
            assert take_head(client).startswith(b"HTTP/1.1 101 ")
            client.sendall(frames[1])
            client.sendall(frames[2])
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"bye", "closed")
    assert got == [b"".join(frames)]
