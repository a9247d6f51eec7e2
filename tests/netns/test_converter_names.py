"""Names that clients of the native converter ask for: who is asked, in which order, and what counts."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.netns.converter_clients import FORBIDDEN, hears, proxy, take
from tests.netns.converter_names import Names
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, gateway
from tests.netns.converter_services import SERVED, SERVICE, greet
from tests.netns.converter_world import (
    ALL,
    LAN,
    SERVER,
    SERVER6,
    SERVER_PRIVATE,
    Converter,
    World,
    needs_tools,
)
from tests.netns.world import eventually

pytestmark = needs_tools

KINDS = pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
OUTSIDE4, OUTSIDE6 = "203.0.113.1", "2001:db8::1"
"""The gateway, as the server sees it."""


@contextmanager
def with_file(conv: World, folder: Path, name: str, content: bytes, config: str) -> Iterator[Converter]:
    """A converter that has a file of its own in the place of /etc/``name``."""
    file = folder / name
    file.write_bytes(content)
    own_file = ("unshare", "--mount", "sh", "-c", f'mount --bind {file} /etc/{name} && exec "$0" "$@"')
    with conv.converter(config, None, *own_file) as converter:
        yield converter


@contextmanager
def second_server(conv: World) -> Iterator[Names]:
    names = Names(conv.server, SERVER_PRIVATE)
    try:
        yield names
    finally:
        names.close()


def asking(*servers: str) -> str:
    return ALL + f"[names]\nservers = {json.dumps(servers)}\n"


@KINDS
@pytest.mark.parametrize("name", ["a_b.test", "_a.test", "a_.b_.test"])
def test_a_name_with_underscores_is_asked_for(conv: World, kind: str, name: str) -> None:
    """Buckets of object stores have such names."""
    conv.names.records[name] = [SERVER]
    with conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        assert hears(conv, kind, name, service.port) == SERVED[kind]
    assert (name, 1) in conv.names.asked


@pytest.mark.parametrize("name", [SERVER6, f"[{SERVER6}]"])
def test_an_ipv6_address_that_is_sent_as_a_socks_name_is_connected_to(conv: World, name: str) -> None:
    with conv.converter(ALL), conv.serving(greet) as service:
        assert socks_name(conv, name, service.port) == 0
        assert socks_name(conv, "::1", service.port) == 2
        assert socks_name(conv, "[::1]", service.port) == 2
        assert [peer[0] for peer in service.peers] == [OUTSIDE6]


def socks_name(conv: World, name: str, port: int) -> int:
    """The code of the reply to a request for an address of type 3 (RFC 1928 section 5)."""
    with proxy(conv, "socks5") as client:
        client.sendall(b"\5\1\0" + b"\5\1\0\3" + bytes([len(name)]) + name.encode() + port.to_bytes(2, "big"))
        return take(client, 4)[3]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (f"options edns0 retrans:1\nnameserver {SERVER}\n", "retrans:1"),
        (f"nameserver {SERVER} 192.0.2.9\n", "192.0.2.9"),
        (f"resolver strange\nnameserver {SERVER}\n", "resolver"),
        (f"nameserver dns.test\nnameserver {SERVER}\n", "dns.test"),
        (f"nameserver fe80::1%nowhere\nnameserver {SERVER}\n", "fe80::1%nowhere"),
        (f"; caf\xe9\noptions edns0 trust-ad ndots:2\nsearch a.test\nnameserver {SERVER} # the first\n", ""),
    ],
    ids=["option", "two", "word", "name", "interface", "all-known"],
)
def test_what_resolv_conf_has_besides_is_ignored_and_named_once(
    conv: World, tmp_path: Path, lines: str, named: str
) -> None:
    conv.names.records["one.test"] = [SERVER]
    config = ALL + "[names]\n"
    with (
        with_file(conv, tmp_path, "resolv.conf", lines.encode("latin-1"), config) as converter,
        conv.serving(greet) as service,
    ):
        for _ in range(4):
            assert hears(conv, "connect", "one.test", service.port) == "hello"
        told = [line for line in converter.log.splitlines() if "/etc/resolv.conf" in line]
        assert len(told) == (1 if named else 0)
        assert all(named in line for line in told)


def test_a_name_server_of_one_link_is_asked_there(conv: World, tmp_path: Path) -> None:
    (info,) = json.loads(conv.server.run("ip", "-j", "-6", "address", "show", "dev", "origins", "scope", "link"))
    (address,) = (each["local"] for each in info["addr_info"] if "local" in each)
    names = Names(conv.server, f"{address}%origins")
    names.records["linked.test"] = [SERVER]
    try:
        lines = f"nameserver {address}%origins\n".encode()
        with (
            with_file(conv, tmp_path, "resolv.conf", lines, ALL + "[names]\n"),
            conv.serving(greet) as service,
        ):
            assert hears(conv, "connect", "linked.test", service.port) == "hello"
    finally:
        names.close()


def test_the_first_name_server_is_asked_first_and_what_it_says_counts(conv: World) -> None:
    """A second one that says at once that nobody has the name is not even asked."""
    conv.names.records["inside.test"] = [SERVER]
    conv.names.late.update({1: 0.03, 28: 0.03})
    try:
        with (
            second_server(conv) as second,
            conv.converter(asking(SERVER, SERVER_PRIVATE)),
            conv.serving(greet) as service,
        ):
            for _ in range(5):
                assert hears(conv, "connect", "inside.test", service.port) == "hello"
            # It is the first one's as well that nobody has a name.
            second.records["outside.test"] = [SERVER]
            assert hears(conv, "connect", "outside.test", service.port) == "502"
            assert second.asked == []
    finally:
        conv.names.late.clear()


@pytest.mark.parametrize("fault", ["fails", "is-silent"])
def test_the_next_name_server_is_asked_where_the_first_one_says_nothing(conv: World, fault: str) -> None:
    names = {f"{what}-{fault}.test" for what in ("known", "unknown", "broken")}
    (conv.names.failing if fault == "fails" else conv.names.silent).update(names)
    with (
        second_server(conv) as second,
        conv.converter(asking(SERVER, SERVER_PRIVATE)) as converter,
        conv.serving(greet) as service,
    ):
        second.records[f"known-{fault}.test"] = [SERVER]
        second.failing.add(f"broken-{fault}.test")
        assert hears(conv, "connect", f"known-{fault}.test", service.port) == "hello"
        assert hears(conv, "connect", f"unknown-{fault}.test", service.port) == "502"
        assert hears(conv, "connect", f"broken-{fault}.test", service.port) == "502"
        eventually(lambda: len(converter.lines()) == 3)
        outcomes = [line["outcome"] for line in converter.lines()]
        assert sorted(outcomes) == ["names-failed", "no-such-name", "ok"]  # each is said when its connection is over


@KINDS
def test_a_name_in_hosts_has_the_addresses_there_and_no_others(conv: World, tmp_path: Path, kind: str) -> None:
    """Neither family is asked for elsewhere; what blocks a name blocks it."""
    conv.names.records["four.test"] = conv.names.records["blocked.test"] = [SERVER6]
    lines = f"# caf\xe9\n{SERVER} Four.test # caf\xe9\n0.0.0.0 blocked.test\n192.0.2.1 caf\xe9.test\n".encode("latin-1")
    with with_file(conv, tmp_path, "hosts", lines, ALL), conv.serving(SERVICE[kind]) as service:
        conv.names.asked.clear()
        assert hears(conv, kind, "four.test", service.port) == SERVED[kind]
        assert hears(conv, kind, "blocked.test", service.port) == FORBIDDEN[kind]
        assert [peer[0] for peer in service.peers] == [OUTSIDE4]
        assert conv.names.asked == []


@pytest.mark.parametrize("first", ["silent", "refusing", "forbidden"])
@pytest.mark.parametrize("way", ["direct", "gateway-unavailable"])
def test_an_answer_that_comes_late_joins_while_attempts_go_on(conv: World, first: str, way: str) -> None:
    """IPv4 is there at once and does not work; IPv6 comes 300 ms later and does (RFC 8305 section 3)."""
    conv.names.records["late.test"] = ["10.9.9.9" if first == "forbidden" else SERVER, SERVER6]
    conv.names.late[28] = 0.3
    verdict = "reject with tcp reset" if first == "refusing" else "drop"
    rule = f"type filter hook input priority 0; tcp dport 8000-8999 {verdict};"
    conv.nft(f"table ip dead {{ chain in {{ {rule} }}; }}", conv.server)
    config = ALL if way == "direct" else ALL_VIA_GATEWAY + gateway("203.0.113.1:9")
    try:
        with conv.converter(config), conv.serving(greet) as service:
            begin = time.monotonic()
            assert hears(conv, "connect", "late.test", service.port) == "hello"
            assert 0.25 < time.monotonic() - begin < 2
            assert [peer[0] for peer in service.peers] == [OUTSIDE6]
    finally:
        conv.names.late.clear()
        conv.nft("delete table ip dead", conv.server)


def test_an_ipv6_address_is_tried_before_a_late_answer_with_ipv4_ones_comes(conv: World) -> None:
    conv.names.records["early.test"] = [SERVER6, SERVER]
    conv.names.late[1] = 1.5
    try:
        with conv.converter(ALL), conv.serving(greet) as service:
            begin = time.monotonic()
            assert hears(conv, "connect", "early.test", service.port) == "hello"
            assert time.monotonic() - begin < 1
    finally:
        conv.names.late.clear()


def test_a_client_whose_names_nobody_answers_keeps_others_waiting_for_none(conv: World) -> None:
    conv.names.records["quick.test"] = [SERVER]
    conv.names.silent.add("silent.test")
    limit = ("prlimit", "--nofile=1024:1024")
    with conv.converter(ALL, None, *limit) as converter, conv.serving(greet) as service, ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(proxy(conv, "connect"))
            client.sendall(b"CONNECT silent.test:80 HTTP/1.1\r\nHost: silent.test\r\n\r\n")
        eventually(lambda: converter.status()["open_connections"] == 200)
        begin = time.monotonic()
        other = stack.enter_context(conv.connect("10.0.1.1", 3128, source=LAN, node=conv.lan))
        asked = f"CONNECT quick.test:{service.port} HTTP/1.1\r\nHost: quick.test\r\n\r\n".encode()
        other.sendall(asked)
        assert take(other, 12) == b"HTTP/1.1 200"
        assert time.monotonic() - begin < 1
        other.shutdown(socket.SHUT_RDWR)
