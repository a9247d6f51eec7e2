import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.netns.connections import Refused, passes, read_all, take, take_head
from tests.netns.converter_clients import (
    KINDS,
    PROTOCOLS,
    ask,
    by_kind,
    convert_connect,
    convert_message,
    convert_reply,
    request,
)
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, NODES, at_home, chain, gateway, node, route, via, via_routes
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import SERVED, SERVICE, answer, echo, fetch, greet, naming
from tests.netns.converter_world import ALL, GATEWAY, PORTS, SERVER6, World
from tests.netns.world import eventually

_PASSED = 192
PROXY = 'kind = "http"\naddress = "[::]:3128"\n'


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        *zip(KINDS, cycle([(), ("loop_check = true",), ("fast_open = true", "loop_check = true")]), strict=False),
        *((kind, ("reuse = true",)) for kind in KINDS),
    ],
)
def test_clients_are_served_by_a_chain_of_four(conv: World, kind: str, keys: tuple[str, ...]) -> None:
    with chain(conv, *keys) as converters, conv.serving(SERVICE[kind]) as service:
        for host in (SERVER, SERVER6):
            assert conv.hears(kind, host, service.port) == SERVED[kind]
        eventually(lambda: all(len(converter.served()) == 2 for converter in converters))
        servers = {f"{SERVER}:{service.port}", f"[{SERVER6}]:{service.port}"}
        assert {line["server"] for line in converters[-1].lines()} == servers


def test_what_the_last_one_hears_is_what_the_client_is_told(conv: World) -> None:
    with chain(conv, "loop_check = true") as converters:
        assert conv.hears("convert", SERVER, 4) == "convert 96"
        assert conv.hears("socks5", SERVER, 4) == "socks 5"
        assert conv.hears("connect", "10.7.0.2", 4) == "403"
        eventually(lambda: all(map(Converter.served, converters)))
        assert all(converter.served()[0] == "refused-by-server" for converter in converters)


@pytest.mark.parametrize("host", [SERVER, SERVER6])
def test_a_network_goes_its_own_way(conv: World, host: str) -> None:
    routes = route("203.0.113.0/24", NODES["second"]) + route("2001:db8::/64", "direct")
    with (
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.converter(via(NODES["first"]) + routes) as converter,
        conv.serving(greet) as service,
    ):
        assert conv.hears("connect", host, service.port) == "hello"
        eventually(lambda: converter.served() and (host != SERVER or second.served()))
        assert first.lines() == []
        assert [line["target"] for line in second.lines()] == ([f"{SERVER}:{service.port}"] if host == SERVER else [])


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5", "convert", "tproxy"])
def test_a_port_goes_its_own_way(conv: World, kind: str, tmp_path: Path) -> None:
    with (
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.serving(SERVICE[kind]) as one,
        conv.serving(SERVICE[kind]) as other,
    ):
        routes = f"203.0.113.0/24 port {other.port} {NODES['second']}\n203.0.113.0/24 {NODES['first']}\n"
        with conv.converter(via_routes(tmp_path, routes)):
            for service in (one, other):
                assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
            eventually(lambda: first.served() and second.served())
        assert [line["target"] for line in first.lines()] == [f"{SERVER}:{one.port}"]
        assert [line["target"] for line in second.lines()] == [f"{SERVER}:{other.port}"]


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
        (("GET", "/film", 0), "first", None),
        (("GET", "/small/film.iso", 0), "first", {"bytes": 15_000, "by": "path"}),
        (("GET", "/film.iso?a=b", 0), "second", {"bytes": 45_001, "by": "path"}),
        # What the request says of itself counts before its path.
        (("PUT", "/small/film", 45_001), "second", {"bytes": 45_001, "by": "content-length"}),
        (("PUT", "/film.iso", 45_000), "first", {"bytes": 45_000, "by": "content-length"}),
    ],
    ids=["unknown", "small-path", "large-path", "large-content", "small-content"],
)
def test_a_request_of_known_size_goes_the_way_for_it(
    conv: World, tmp_path: Path, request_: tuple[str, str, int], way: str, size: object
) -> None:
    method, path, length = request_
    fields = f"Content-Length: {length}\r\n" if length else ""
    routes = f"203.0.113.0/24 {NODES['first']}\n203.0.113.0/24 above 45kB {NODES['second']}\n"
    with (
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.serving(answer) as service,
        conv.converter(via_routes(tmp_path, routes) + _SIZES) as converter,
        conv.proxy("absolute") as client,
    ):
        head, _ = fetch(client, service.port, path, method, fields, bytes(length))
        assert head.startswith(b"HTTP/1.1 200 ")
        passed, other = (first, second) if way == "first" else (second, first)
        client.close()
        eventually(lambda: passed.served() and converter.served())
        assert other.served() == []
        assert converter.lines()[0].get("size") == size


def test_a_name_goes_the_way_of_its_addresses(conv: World) -> None:
    """The first address' converter says that the server refuses; the next address is reached without one."""
    conv.names.records["two.test"] = [SERVER6, SERVER]
    with (
        conv.filtered(conv.server, "tcp dport 8000-8999 reject with tcp reset", family="ip6"),
        node(conv, "first") as first,
        conv.converter(via(NODES["first"]) + route("203.0.113.0/24", "direct")),
        conv.serving(greet) as service,
    ):
        assert conv.hears("connect", "two.test", service.port) == "hello"
        eventually(lambda: first.served() == ["refused-by-server"])


@pytest.mark.parametrize("fallback", ["direct", "refuse"])
def test_a_server_that_only_the_next_converter_has_a_route_to_is_reached_by_it(conv: World, fallback: str) -> None:
    """Of two addresses of a name the one is taken to which there is a route from here, too."""
    conv.names.records.update({"six.test": [SERVER6], "both.test": [SERVER6, SERVER]})
    with (
        conv.added(conv.client, "-6", "route", "unreachable 2001:db8::/64"),
        conv.converter(at_home(PROXY, f"{GATEWAY}:{PORTS['convert']}", f'fallback = "{fallback}"'), node=conv.client),
        conv.serving(greet) as service,
    ):

        def heard(host: str) -> bytes:
            with conv.connect("10.0.9.1", 3128, node=conv.lan) as client:
                ask(client, "connect", host, service.port)
                return take(client, 5)

        with conv.converter(ALL) as behind:
            assert [heard(host) for host in (SERVER6, "six.test", "both.test")] == [b"hello"] * 3
            servers = sorted(f"{host}:{service.port}" for host in (f"[{SERVER6}]", f"[{SERVER6}]", SERVER))
            eventually(lambda: sorted(line["server"] for line in behind.lines()) == servers)
        with pytest.raises(Refused, match="502"):
            heard(SERVER6)


@pytest.mark.parametrize("refuse", ["prohibit", "blackhole"])
def test_what_a_route_refuses_goes_to_no_other_converter(conv: World, refuse: str) -> None:
    host = "203.0.113.9"
    with (
        conv.added(conv.client, "-4", "route", f"{refuse} {host}/32"),
        conv.added(conv.client, "-6", "route", f"{refuse} 2001:db8::/64"),
        conv.converter(at_home(PROXY, f"{GATEWAY}:{PORTS['convert']}"), node=conv.client),
        conv.converter(ALL) as behind,
    ):
        for target in (host, SERVER6):
            with conv.connect("10.0.9.1", 3128, node=conv.lan) as client, pytest.raises(Refused, match="403"):
                ask(client, "connect", target, 80)
        assert behind.lines() == []


def test_a_converter_that_is_away_keeps_no_other_one_from_working(conv: World) -> None:
    config = via(NODES["first"], 'fallback = "refuse"') + route("2001:db8::/64", NODES["second"])
    with node(conv, "second"), conv.converter(config) as converter, conv.serving(greet) as service:
        for _ in range(2):
            assert conv.hears("connect", SERVER, service.port) == "502"
            assert conv.hears("connect", SERVER6, service.port) == "hello"
        assert converter.log.count(f"gateway {NODES['first']} is unavailable") == 1
        assert NODES["second"] not in converter.log


def test_the_table_is_replaced_while_connections_stand(conv: World, tmp_path: Path) -> None:
    table = tmp_path / "routes"
    table.write_text(f"# by the controller\n203.0.113.0/24 {NODES['first']}\n")
    config = via(NODES["third"], f'routes_file = "{table}"')
    with (
        node(conv, "first") as first,
        node(conv, "second") as second,
        conv.converter(config) as converter,
        conv.serving(echo) as service,
    ):
        with conv.opened("connect", SERVER, service.port) as before:
            table.write_text(f"203.0.113.0/24 {NODES['second']}\n")
            assert "not reloaded" not in converter.reload(config)
            with conv.opened("connect", SERVER, service.port) as after:
                for client in (before, after):
                    assert passes(client, client, b"still there?")
        eventually(lambda: first.served() == second.served() == ["ok"])


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("203.0.113.0/24 nowhere\n", ["routes:1", "nowhere", "direct"]),
        ("203.0.113.0/24 direct\n203.0.113.0/24 direct\n", ["203.0.113.0/24", "each network once"]),
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
def test_a_wrong_table_is_named_and_the_old_one_stays(
    conv: World, tmp_path: Path, table: str | None, parts: list[str]
) -> None:
    file = tmp_path / "routes"
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
        assert conv.hears("connect", SERVER, service.port) == "hello"
    log = conv.refused(config, 66 if table is None else 64)
    assert all(part in log for part in parts), log


@pytest.mark.parametrize("kind", ["convert", "connect", "socks5", "tproxy"])
def test_a_circle_is_refused_where_it_closes(conv: World, kind: str) -> None:
    heard = by_kind("502", "socks 3", "convert 97")
    with (
        node(conv, "first", gateway(NODES["second"], "loop_check = true")) as first,
        node(conv, "second", gateway(NODES["third"], "loop_check = true")) as second,
        node(conv, "third", gateway(NODES["first"], "loop_check = true")) as third,
        conv.converter(via(NODES["first"])) as converter,
    ):
        assert conv.hears(kind, SERVER, 8000) == heard[kind]
        # Each writes its lines when it comes to it.
        eventually(lambda: converter.served() and len(first.served()) == 2 and second.served() and third.served())
        assert (second.served(), third.served()) == (["unreachable"], ["unreachable"])
        assert first.served() == ["loop", "unreachable"]


MEMBER = f'[gateway]\nconverters = ["{GATEWAY}/32"]\n'
"""A converter that others may send a named chain through."""


@contextmanager
def members(conv: World, config: str, *names: str, keys: str = "") -> Iterator[list[Converter]]:
    """The converter that clients go to, with this configuration, and those of NODES, each a MEMBER."""
    with ExitStack() as stack:
        behind = [stack.enter_context(node(conv, name, MEMBER + keys)) for name in names]
        yield [stack.enter_context(conv.converter(config)), *behind]


def named(*ways: str) -> str:
    """The first converter's, with these ways to SERVER, each of names of NODES."""
    texts = [" ".join(NODES.get(name, name) for name in way.split()) for way in ways]
    return ALL_VIA_GATEWAY + '[gateway]\nfallback = "refuse"\n' + route(f"{SERVER}/32", " or ".join(texts))


@pytest.mark.parametrize(
    ("kind", "keys"), [*zip(KINDS, cycle(["reuse = true\n", "fast_open = true\nloop_check = true\n"]), strict=False)]
)
def test_the_first_converter_names_the_chain(conv: World, kind: str, keys: str) -> None:
    config = named("first third second").replace("fallback", f"{keys}fallback")
    with (
        members(conv, config, "first", "third", "second", keys=keys) as (_, *nodes),
        conv.serving(SERVICE[kind]) as service,
    ):
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
        eventually(lambda: all(map(Converter.served, nodes)))
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
        assert conv.hears("connect", SERVER, service.port) == "hello"
        eventually(lambda: last.served())
        assert third.lines() == []


def test_the_next_best_way_serves_the_same_connection_where_a_converter_behind_the_next_one_is_away(
    conv: World,
) -> None:
    with (
        members(conv, named("first second", "first third"), "first", "third") as (converter, first, third),
        conv.serving(greet) as service,
    ):
        for _ in range(2):
            assert conv.hears("connect", SERVER, service.port) == "hello"
        eventually(lambda: len(third.served()) == 2 and len(first.served()) == 4)
        assert sorted(first.served()) == ["gateway-unavailable", "gateway-unavailable", "ok", "ok"]
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
        members(conv, config, "first", "second", "third", keys=keys) as (converter, first, second, _),
        conv.serving(greet) as service,
    ):
        with hanging(second):
            assert conv.hears("connect", SERVER, service.port) == "hello"
        assert conv.hears("connect", SERVER, service.port) == "hello"
        # What it was asked for in the meantime it does not do when it goes on.
        eventually(lambda: len(second.served()) == 2)
        assert sorted(second.served()) == ["client-gone", "ok"]
        assert first.served() == ["ok"]
        assert len(service.peers) == 2
        assert "is unavailable" not in converter.log, "it could as well have been the server"


def test_a_request_on_a_kept_connection_takes_another_way_where_the_next_converter_hangs(conv: World) -> None:
    """Its kernel takes the request: so it is asked whether it is there. One whose server thinks for long is."""
    config = named("second third", "first third").replace("fallback", 'timeout = "900ms"\nretry = "1s"\nfallback')
    asked: list[bytes] = []

    def ask(path: str) -> float:
        begun = time.monotonic()
        with conv.proxy("absolute") as client:
            assert fetch(client, service.port, path)[1] == path.encode()
        return time.monotonic() - begun

    with (
        members(conv, "workers = 1\n" + config, "first", "second", "third") as (converter, first, second, _),
        conv.serving(naming(2, asked)) as service,
    ):
        for path in ("/", "/slow", "/"):
            ask(path)
        assert (len(service.peers), asked) == (1, [b"/", b"/slow", b"/"])
        assert "is unavailable" not in converter.log
        with hanging(second):
            assert 0.5 < ask("/hangs") < 3.0
            # From now on no other waits for it.
            assert ask("/next") < 0.5
            # What it got before it hung it sends on when it goes on.
            assert asked[3:] == [b"/hangs", b"/next"]
        assert f"gateway {NODES['second']} is unavailable: it does not answer" in converter.log
        eventually(lambda: converter.served() == ["ok"] * 5)
        assert (len(service.peers), first.served()) == (2, [])


@pytest.mark.parametrize(
    ("kind", "heard", "keys"),
    [
        ("connect", "504", ()),
        ("absolute", "504", ("reuse = true",)),
        ("socks5", "socks 4", ("fast_open = true", "mptcp = false")),
        ("convert", "convert 65", ("reuse = true",)),
        ("tproxy", "reset", ("loop_check = true",)),
    ],
)
def test_a_converter_that_hangs_is_found_by_the_one_before_it_before_anybody_else_gives_up(
    conv: World, kind: str, heard: str, keys: tuple[str, ...]
) -> None:
    keys = (*keys, 'timeout = "900ms"', 'retry = "500ms"', 'fallback = "refuse"')
    with chain(conv, *keys) as (converter, first, second, third), conv.serving(SERVICE[kind]) as service:
        with hanging(third):
            begun = time.monotonic()
            assert conv.hears(kind, SERVER, service.port) == heard
            assert 0.5 < time.monotonic() - begun < 3
            # As soon as it is known, nobody waits for it any more.
            begun = time.monotonic()
            assert conv.hears(kind, SERVER, service.port) == heard
            assert time.monotonic() - begun < 0.3
            assert f"gateway {NODES['third']} is unavailable: it does not answer" in second.log
            assert "is unavailable" not in converter.log + first.log
            assert service.peers == []
            for each in (converter, first, second):
                each.wait_until_idle()
        eventually(lambda: conv.hears(kind, SERVER, service.port) == SERVED[kind])
        eventually(lambda: {*third.served()} - {"info"} == {"client-gone", "ok"})


def test_the_server_is_reached_directly_where_the_only_next_converter_hangs(conv: World) -> None:
    keys = ('timeout = "900ms"', 'retry = "1s"')
    with chain(conv, *keys, length=2) as (converter, first, second), conv.serving(greet) as service:
        for hung, before in ((second, first), (first, converter)):
            with hanging(hung):
                begun = time.monotonic()
                assert conv.hears("connect", SERVER, service.port) == "hello"
                assert 0.5 < time.monotonic() - begun < 3
                assert "is unavailable: it does not answer" in before.log
        assert "is unavailable" not in second.log


def test_a_server_that_lets_a_converter_wait_says_nothing_of_that_converter(conv: World) -> None:
    with (
        conv.filtered(conv.server, "tcp dport 5 drop"),
        node(conv, "first", tables='[timeouts]\nconnect = "1500ms"\n') as first,
        conv.converter(via(NODES["first"], 'timeout = "300ms"')) as converter,
    ):
        assert conv.hears("connect", SERVER, 5) == "504"
        eventually(lambda: "info" in first.served() and "timed-out" in first.served())
        assert "is unavailable" not in converter.log


def test_without_a_way_that_works_the_client_is_refused(conv: World) -> None:
    with members(conv, named("third first", "first second"), "first"):
        assert conv.hears("connect", SERVER, 8000) == "502"


def test_a_chain_with_a_stranger_in_it_goes_nowhere(conv: World) -> None:
    stranger = f"{SERVER}:2301"
    with members(conv, named(f"first {stranger}"), "first") as (_, first), conv.serving(greet) as service:
        assert conv.hears("convert", SERVER, service.port) == "convert 32"
        eventually(lambda: first.served() == ["chain-forbidden"])


def passed(*numbers: int) -> bytes:
    return struct.pack(f"!BBH{len(numbers)}Q", _PASSED, 1 + 2 * len(numbers), 0, *numbers)


@pytest.mark.parametrize(("count", "heard"), [(15, "hello"), (16, "convert 97")])
def test_no_chain_is_longer_than_sixteen(conv: World, count: int, heard: str) -> None:
    with conv.converter(ALL), conv.serving(greet) as service, conv.proxy("convert") as client:
        client.sendall(convert_message(convert_connect(SERVER, service.port), passed(*range(count))))
        if heard == "hello":
            assert convert_reply(client) == b""
            assert take(client, 5) == b"hello"
        else:
            with pytest.raises(Refused, match=heard):
                convert_reply(client)


@pytest.mark.parametrize("keys", [(), ("loop_check = true", "reuse = true"), ("fast_open = true",)], ids=" ".join)
@PROTOCOLS
def test_bytes_behind_an_upgrade_reach_the_server_once_by_way_of_a_gateway(
    conv: World, keys: tuple[str, ...], protocol: int
) -> None:
    frames = [b"first frame;", b"second frame;", b"third"]
    got: list[bytes] = []

    def websocket(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        got.append(read_all(connection)[0])
        connection.sendall(b"bye")

    with node(conv, "first"), conv.converter(via(NODES["first"], *keys)), conv.serving(websocket) as service:
        fields = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        with conv.proxy("absolute", protocol) as client:
            client.sendall(request("absolute", SERVER, service.port, "/ws", fields=fields) + frames[0])
            assert take_head(client).startswith(b"HTTP/1.1 101 ")
            client.sendall(frames[1])
            client.sendall(frames[2])
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"bye", "closed")
    assert got == [b"".join(frames)]
