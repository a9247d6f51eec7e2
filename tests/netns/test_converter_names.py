import json
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.netns.connections import take
from tests.netns.converter_clients import FORBIDDEN, NAMED_KINDS
from tests.netns.converter_names import Names
from tests.netns.converter_nodes import via
from tests.netns.converter_process import SERVER, with_etc
from tests.netns.converter_services import SERVED, SERVICE, greet
from tests.netns.converter_world import ALL, LAN, OUTSIDE, OUTSIDE6, SERVER6, SERVER_PRIVATE, World
from tests.netns.world import eventually


def with_etc_file(folder: Path, name: str, content: bytes) -> tuple[str, ...]:
    """What runs a program with this file in the place of /etc/``name``."""
    file = folder / name
    file.write_bytes(content)
    return with_etc(file)


def second_server(conv: World) -> closing[Names]:
    return closing(Names(conv.server, SERVER_PRIVATE))


def asking(*servers: str) -> str:
    return ALL + f"[names]\nservers = {json.dumps(servers)}\n"


@NAMED_KINDS
@pytest.mark.parametrize("name", ["a_b.test", "_a.test", "a_.b_.test"])
def test_a_name_with_underscores_is_asked_for(conv: World, kind: str, name: str) -> None:
    """Buckets of object stores have such names."""
    conv.names.records[name] = [SERVER]
    with conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        assert conv.hears(kind, name, service.port) == SERVED[kind]
    assert (name, 1) in conv.names.asked


@pytest.mark.parametrize("name", [SERVER6, f"[{SERVER6}]"])
def test_an_ipv6_address_that_is_sent_as_a_socks_name_is_connected_to(conv: World, name: str) -> None:
    with conv.converter(ALL), conv.serving(greet) as service:
        assert socks_name(conv, name, service.port) == 0
        assert socks_name(conv, "::1", service.port) == 2
        assert socks_name(conv, "[::1]", service.port) == 2
        eventually(lambda: [peer[0] for peer in service.peers] == [OUTSIDE6])


def socks_name(conv: World, name: str, port: int) -> int:
    """The code of the reply to a request for an address of type 3 (RFC 1928 section 5)."""
    with conv.proxy("socks5") as client:
        client.sendall(b"\5\1\0" + b"\5\1\0\3" + bytes([len(name)]) + name.encode() + port.to_bytes(2, "big"))
        return take(client, 4)[3]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (f"options edns0 retrans:1\nnameserver {SERVER}\n", "retrans:1"),
        (f"; caf\xe9\noptions edns0 trust-ad ndots:2\nsearch a.test\nnameserver {SERVER} # the first\n", ""),
    ],
    ids=["option", "all-known"],
)
def test_what_resolv_conf_has_besides_is_ignored_and_named_once(
    conv: World, tmp_path: Path, lines: str, named: str
) -> None:
    conv.names.records["one.test"] = [SERVER]
    own_file = with_etc_file(tmp_path, "resolv.conf", lines.encode("latin-1"))
    with conv.converter(ALL + "[names]\n", *own_file) as converter, conv.serving(greet) as service:
        for _ in range(4):
            assert conv.hears("connect", "one.test", service.port) == "hello"
        told = [line for line in converter.log.splitlines() if "/etc/resolv.conf" in line]
        assert len(told) == (1 if named else 0)
        assert all(named in line for line in told)


def test_a_name_server_of_one_link_is_asked_there(conv: World, tmp_path: Path) -> None:
    (info,) = json.loads(conv.server.run("ip", "-j", "-6", "address", "show", "dev", "origins", "scope", "link"))
    (address,) = (each["local"] for each in info["addr_info"] if "local" in each)
    own_file = with_etc_file(tmp_path, "resolv.conf", f"nameserver {address}%origins\n".encode())
    with (
        closing(Names(conv.server, f"{address}%origins")) as names,
        conv.converter(ALL + "[names]\n", *own_file),
        conv.serving(greet) as service,
    ):
        names.records["linked.test"] = [SERVER]
        assert conv.hears("connect", "linked.test", service.port) == "hello"


def test_the_first_name_server_is_asked_first_and_what_it_says_counts(conv: World) -> None:
    """A second one that says at once that nobody has the name is not even asked."""
    conv.names.records["inside.test"] = [SERVER]
    conv.names.late.update({1: 0.03, 28: 0.03})
    with second_server(conv) as second, conv.converter(asking(SERVER, SERVER_PRIVATE)), conv.serving(greet) as service:
        for _ in range(5):
            assert conv.hears("connect", "inside.test", service.port) == "hello"
        # It is the first one's as well that nobody has a name.
        second.records["outside.test"] = [SERVER]
        assert conv.hears("connect", "outside.test", service.port) == "502"
        assert second.asked == []


@pytest.mark.parametrize("fault", ["fails", "is-silent"])
def test_the_next_name_server_is_asked_where_the_first_one_says_nothing(conv: World, fault: str) -> None:
    names = {"known.test", "unknown.test", "broken.test"}
    (conv.names.failing if fault == "fails" else conv.names.silent).update(names)
    with (
        second_server(conv) as second,
        conv.converter(asking(SERVER, SERVER_PRIVATE)) as converter,
        conv.serving(greet) as service,
    ):
        second.records["known.test"] = [SERVER]
        second.failing.add("broken.test")
        assert conv.hears("connect", "known.test", service.port) == "hello"
        assert conv.hears("connect", "unknown.test", service.port) == "502"
        assert conv.hears("connect", "broken.test", service.port) == "502"
        eventually(lambda: len(converter.lines()) == 3)
        # Each is said when its connection is over.
        assert sorted(converter.served()) == ["names-failed", "no-such-name", "ok"]


@NAMED_KINDS
def test_a_name_in_hosts_has_the_addresses_there_and_no_others(conv: World, tmp_path: Path, kind: str) -> None:
    """Neither family is asked for elsewhere; what blocks a name blocks it."""
    conv.names.records["four.test"] = conv.names.records["blocked.test"] = [SERVER6]
    lines = f"# caf\xe9\n{SERVER} Four.test # caf\xe9\n0.0.0.0 blocked.test\n192.0.2.1 caf\xe9.test\n".encode("latin-1")
    own_file = with_etc_file(tmp_path, "hosts", lines)
    with conv.converter(ALL, *own_file), conv.serving(SERVICE[kind]) as service:
        assert conv.hears(kind, "four.test", service.port) == SERVED[kind]
        assert conv.hears(kind, "blocked.test", service.port) == FORBIDDEN[kind]
        assert [peer[0] for peer in service.peers] == [OUTSIDE]
        assert conv.names.asked == []


@pytest.mark.parametrize("first", ["silent", "refusing", "forbidden"])
@pytest.mark.parametrize("way", ["direct", "gateway-unavailable"])
def test_an_answer_that_comes_late_joins_while_attempts_go_on(conv: World, first: str, way: str) -> None:
    """IPv4 is there at once and does not work; IPv6 comes 300 ms later and does (RFC 8305 section 3)."""
    conv.names.records["late.test"] = ["10.9.9.9" if first == "forbidden" else SERVER, SERVER6]
    conv.names.late[28] = 0.3
    verdict = "reject with tcp reset" if first == "refusing" else "drop"
    config = ALL if way == "direct" else via("203.0.113.1:9")
    with (
        conv.filtered(conv.server, f"tcp dport 8000-8999 {verdict}", family="ip"),
        conv.converter(config),
        conv.serving(greet) as service,
    ):
        begin = time.monotonic()
        assert conv.hears("connect", "late.test", service.port) == "hello"
        assert 0.25 < time.monotonic() - begin < 2
        assert [peer[0] for peer in service.peers] == [OUTSIDE6]


@NAMED_KINDS
def test_ipv6_address_that_answers_is_preferred(conv: World, kind: str) -> None:
    conv.names.records["dual.test"] = [SERVER, SERVER6]
    with conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        assert conv.hears(kind, "dual.test", service.port) == SERVED[kind]
        assert [peer[0] for peer in service.peers] == [OUTSIDE6]


@pytest.mark.parametrize(
    ("rule", "late", "lost", "used", "least", "most"),
    [
        ("meta l4proto tcp drop", {}, set(), OUTSIDE, 0.24, 3),  # not the ten seconds that a connection may take
        ("accept", {1: 1.5}, set(), OUTSIDE6, 0, 1),
        # The resolver itself would give up after four seconds.
        ("accept", {}, {1}, OUTSIDE6, 0, 1.5),
        ("accept", {}, {28}, OUTSIDE, 0, 1.5),
    ],
    ids=["ipv6-is-dead", "ipv4-comes-late", "ipv4-is-lost", "ipv6-is-lost"],
)
def test_of_two_families_the_one_that_works_is_used_in_time(
    conv: World, rule: str, late: dict[int, float], lost: set[int], used: str, least: float, most: float
) -> None:
    conv.names.records["dual.test"] = [SERVER6, SERVER]
    conv.names.late.update(late)
    conv.names.lost.update(lost)
    with conv.filtered(conv.server, rule, family="ip6"), conv.converter(ALL), conv.serving(greet) as service:
        times = []
        for _ in range(3):
            begin = time.monotonic()
            assert conv.hears("connect", "dual.test", service.port) == "hello"
            times.append(time.monotonic() - begin)
        # Where the answer with IPv6 addresses comes late a dead one is not tried at all.
        assert least < sorted(times)[1] < most
        assert {peer[0] for peer in service.peers} == {used}


@pytest.mark.parametrize("name", ["resolv.conf", "hosts"])
def test_the_systems_name_servers_and_hosts_are_those_of_now(conv: World, name: str, tmp_path: Path) -> None:
    """At a machine's start the converter may be there before what its networks say."""
    late = f"late-{name}.test"
    said = {"resolv.conf": f"nameserver {SERVER}\n", "hosts": f"{SERVER} {late}\n"}[name]
    conv.names.records["late-resolv.conf.test"] = [SERVER]
    own_file = with_etc_file(tmp_path, name, b"")
    config = ALL + "[names]\n" * (name == "resolv.conf")
    with conv.converter(config, *own_file), conv.serving(greet) as service:
        assert conv.hears("connect", late, service.port) != "hello"
        (tmp_path / name).write_text(said)
        assert conv.hears("connect", late, service.port) == "hello"


def test_a_client_whose_names_nobody_answers_keeps_others_waiting_for_none(conv: World) -> None:
    conv.names.records["quick.test"] = [SERVER]
    conv.names.silent.add("silent.test")
    limit = ("prlimit", "--nofile=1024:1024")
    with conv.converter(ALL, *limit) as converter, conv.serving(greet) as service, ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(conv.proxy("connect"))
            client.sendall(b"CONNECT silent.test:80 HTTP/1.1\r\nHost: silent.test\r\n\r\n")
        eventually(lambda: converter.status()["open_connections"] == 200)
        begin = time.monotonic()
        other = stack.enter_context(conv.connect("10.0.1.1", 3128, source=LAN, node=conv.lan))
        asked = f"CONNECT quick.test:{service.port} HTTP/1.1\r\nHost: quick.test\r\n\r\n".encode()
        other.sendall(asked)
        assert take(other, 12) == b"HTTP/1.1 200"
        assert time.monotonic() - begin < 1
        other.shutdown(socket.SHUT_RDWR)
