"""What the native converter must not do, asked of every kind of listener: the client is told, and no SYN leaves."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import count

import pytest

from tests.netns.converter_clients import (
    FORBIDDEN,
    KINDS,
    LISTENER,
    TRANSPARENT,
    TUNNELS,
    Refused,
    convert_connect,
    convert_message,
    convert_reply,
    hears,
    proxy,
    read_all,
    request,
    take_head,
)
from tests.netns.converter_world import (
    ALL,
    GATEWAY,
    METRICS,
    MPTCP,
    PORTS,
    SERVER,
    SERVER6,
    SERVER_PRIVATE,
    STRANGER,
    STRANGER6,
    TCP,
    Converter,
    World,
    needs_tools,
)
from tests.netns.squid_world import Syn
from tests.netns.throttler_world import eventually

pytestmark = needs_tools

CONFIG = ALL + '[timeouts]\nrequest = "2s"\nconnect = "1s"\n'

# By the reason that logs and metrics give.
SPECIAL = """127.0.0.1 127.255.255.254 0.0.0.0 169.254.169.254 169.254.1.1 100.100.100.200 224.0.0.1 239.1.1.1
    255.255.255.255 240.0.0.1 192.0.0.8 198.18.0.1 ::1 :: fe80::1 fec0::1 ff02::1 ff05::2 fd00:ec2::254 fc00::1 100::1
    2001::1 10.9.8.7 10.7.0.2 172.16.0.1 192.168.1.1 100.64.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1
    ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1 2002:7f00:1:: 2002:a00:1::1 10.0.1.1
    10.0.2.1 10.255.255.255 fd00:1::1"""
OWN = "203.0.113.1 192.0.2.1 2001:db8::1 2001:db8:5::1 ::ffff:203.0.113.1"
BROADCAST = "203.0.113.255"
# Hosts that the C library takes for addresses, and that are names by RFC 3986 section 3.2.2.
NUMERIC = ["2130706433", "0x7f.1", "0x7f000001", "127.1", "017700000001", "0177.0.0.1", "127.0.0.01", "0"]


@pytest.fixture(scope="module")
def running(conv: World) -> Iterator[Converter]:
    with conv.converter(CONFIG) as converter:
        yield converter


@contextmanager
def reloaded(converter: Converter, config: str) -> Iterator[None]:
    """The converter with another configuration for the length of the block."""
    assert "not reloaded" not in converter.reload(config)
    try:
        yield
    finally:
        assert "not reloaded" not in converter.reload(CONFIG)


@pytest.fixture
def net(conv: World, running: Converter) -> World:
    """The shared world, with nothing left over from the test before."""
    assert running.popen.poll() is None
    conv.names.records.clear()
    conv.names.asked.clear()
    conv.syns()
    return conv


def to_servers(world: World) -> list[Syn]:
    """The SYNs since the last look that were no question to a name server, and none of the tests' own."""
    return [syn for syn in world.syns() if syn.port not in (53, METRICS)]


@contextmanager
def accounted(converter: Converter, kind: str, target: str, reason: str) -> Iterator[None]:
    """In the block a counter moves by one, and a line says of whom and why."""
    listener = LISTENER[kind]
    counted, lines = converter.outcomes(listener).get(reason, 0), len(converter.lines())
    yield
    assert converter.outcomes(listener).get(reason, 0) == counted + 1
    wanted = (listener, target, reason)
    eventually(
        lambda: wanted in [(line["listener"], line["target"], line["outcome"]) for line in converter.lines()[lines:]]
    )


def shown(host: str, port: int) -> str:
    """As the access log shows a target."""
    if ":" not in host:
        return f"{host}:{port}"
    mapped = host.startswith("::ffff:") and ":0:" not in host
    return f"[{host if mapped else ip_address(host)}]:{port}"


def can_be_asked(kind: str, host: str) -> bool:
    """Whether the client's own kernel lets a packet to this address out, which a transparent listener could meet."""
    if kind not in TRANSPARENT:
        return True
    if kind == "redirect" and host == "fec0::1":
        return False
    kernel_keeps = ("0.", "127.", "224.", "239.", "255.", "::1", "::ffff:", "::127", "fe80", "ff0", "10.0.2.1")
    return host != "::" and not host.startswith(kernel_keeps)


def is_no_peer(host: str) -> bool:
    """Whether no other host can have this address: unspecified, loopback, multicast or broadcast."""
    address = ip_address(host.removeprefix("::ffff:") if "." in host and ":0:" not in host else host)
    odd = address.is_unspecified or address.is_multicast or address.is_loopback
    return odd or host == "255.255.255.255"


def greet(connection: socket.socket) -> None:
    connection.sendall(b"hello")
    connection.recv(1)


def answer(connection: socket.socket) -> None:
    take_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    connection.recv(1)


SERVED = {"absolute": "200"} | dict.fromkeys(TUNNELS, "hello")


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@pytest.mark.parametrize("protocol", [TCP, MPTCP], ids=["tcp", "mptcp"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_allowed_leaves_one_syn_without_mptcp(net: World, kind: str, protocol: int, host: str) -> None:
    """The control for all others: the wire is watched, and what an allowed target gets is seen on it."""
    with net.serving(answer if kind == "absolute" else greet) as service:
        assert hears(net, kind, host, service.port, protocol) == SERVED[kind]
        assert to_servers(net) == [Syn("origins", host, service.port, with_mptcp=False)]


REFUSALS = [
    (kind, host, reason)
    for reason, hosts in (("special-address", SPECIAL), ("own-address", OWN))
    for kind in KINDS
    for host in hosts.split()
    if can_be_asked(kind, host)
]


@pytest.mark.parametrize(("kind", "host", "reason"), REFUSALS)
def test_forbidden_address_is_refused(net: World, running: Converter, kind: str, host: str, reason: str) -> None:
    # Convert has its own form of addresses, in which IPv4 ones are mapped; some cannot be a peer's (section 6.2.4).
    impossible = kind == "convert" and is_no_peer(host)
    reason = "malformed" if impossible else reason
    mapped = kind in ("convert", *TRANSPARENT) and ":0:" not in host
    plain = host.removeprefix("::ffff:") if mapped else host
    with accounted(running, kind, "" if impossible else shown(plain, 8080), reason):
        assert hears(net, kind, host, 8080) == ("convert 1" if impossible else FORBIDDEN[kind])
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tproxy"])
def test_broadcast_address_of_an_own_network_is_refused(net: World, running: Converter, kind: str) -> None:
    with accounted(running, kind, shown(BROADCAST, 8080), "special-address"):
        assert hears(net, kind, BROADCAST, 8080) == FORBIDDEN[kind]
    assert to_servers(net) == []


@pytest.mark.parametrize("host", NUMERIC)
@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_numeric_disguise_is_neither_an_address_nor_a_name(net: World, kind: str, host: str) -> None:
    net.names.records[host] = ["127.0.0.1"]
    assert hears(net, kind, host, 8080) == {"socks5": "socks 4"}.get(kind, "400")
    assert (to_servers(net), net.names.asked) == ([], [])


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5", "convert"])
def test_port_zero_is_refused(net: World, kind: str) -> None:
    expected = {"connect": ("400", "403"), "absolute": ("400", "403"), "socks5": ("socks 1", "socks 2")}
    assert hears(net, kind, SERVER, 0) in expected.get(kind, ("convert 1", "convert 32"))
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", KINDS)
def test_mail_is_refused(net: World, running: Converter, kind: str) -> None:
    with accounted(running, kind, f"{SERVER}:25", "port"):
        assert hears(net, kind, SERVER, 25) == FORBIDDEN[kind]
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8:77::7"])
def test_own_address_is_known_as_soon_as_it_is_there(net: World, kind: str, address: str) -> None:
    net.gateway.ip("address", "add", address, "dev", "lo")
    try:
        assert hears(net, kind, address, 8080) == FORBIDDEN[kind]
        assert to_servers(net) == []
    finally:
        net.gateway.ip("address", "delete", address, "dev", "lo")


@pytest.mark.parametrize("kind", KINDS)
def test_private_network_is_reached_once_it_is_allowed_and_a_denied_one_is_not(
    net: World, running: Converter, kind: str
) -> None:
    with net.serving(answer if kind == "absolute" else greet) as service:
        targets = f'[targets]\nallow = ["10.7.0.0/16"]\ndeny = ["{SERVER}/32"]\n'
        with reloaded(running, CONFIG + targets):
            assert hears(net, kind, SERVER_PRIVATE, service.port) == SERVED[kind]
            assert {syn.target for syn in to_servers(net)} == {SERVER_PRIVATE}
            with accounted(running, kind, f"{SERVER}:{service.port}", "denied"):
                assert hears(net, kind, SERVER, service.port) == FORBIDDEN[kind]
        assert hears(net, kind, SERVER_PRIVATE, service.port) == FORBIDDEN[kind]
        assert to_servers(net) == []


@pytest.mark.parametrize("kind", KINDS)
def test_own_address_is_reached_when_it_is_allowed_alone_and_never_at_a_listener(
    net: World, running: Converter, kind: str
) -> None:
    with reloaded(running, CONFIG + f'[targets]\nallow = ["{GATEWAY}/32"]\n'):
        for port in PORTS.values():
            if kind not in TRANSPARENT:
                assert hears(net, kind, GATEWAY, port) == FORBIDDEN[kind]
        assert to_servers(net) == []
        # Nobody listens there: the attempt is made, and refused by the gateway's own kernel.
        expected = {"socks5": "socks 5", "convert": "convert 96", "tproxy": "reset", "redirect": "reset"}
        assert hears(net, kind, GATEWAY, 4444) == expected.get(kind, "502")
        assert [syn.port for syn in to_servers(net)] == [4444]
    with reloaded(running, CONFIG + '[targets]\nallow = ["10.0.0.0/8"]\n'):
        assert hears(net, kind, GATEWAY, 4444) == FORBIDDEN[kind]
        assert to_servers(net) == []


@pytest.mark.parametrize(
    ("name", "records", "reason"),
    [
        ("loopback.test", ["127.0.0.1"], "special-address"),
        ("loopback6.test", ["::1"], "special-address"),
        ("mapped.test", ["::ffff:127.0.0.1"], "special-address"),
        ("metadata.test", ["169.254.169.254"], "special-address"),
        ("private.test", [SERVER_PRIVATE, "fd00:ec2::254"], "special-address"),
        ("own.test", ["203.0.113.1", "2001:db8::1"], "own-address"),
        ("nat64.test", ["64:ff9b::a00:1"], "special-address"),
    ],
)
@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_name_with_forbidden_addresses_is_refused(
    net: World, running: Converter, kind: str, name: str, records: list[str], reason: str
) -> None:
    net.names.records[name] = list(records)
    with accounted(running, kind, f"{name}:8080", reason):
        assert hears(net, kind, name, 8080) == FORBIDDEN[kind]
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_of_a_mixed_name_only_what_is_allowed_is_tried(net: World, kind: str) -> None:
    net.names.records["mixed.test"] = ["127.0.0.1", "::1", SERVER_PRIVATE, SERVER]
    with net.serving(answer if kind == "absolute" else greet) as service:
        assert hears(net, kind, "mixed.test", service.port) == SERVED[kind]
    assert {syn.target for syn in to_servers(net)} == {SERVER}


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_answer_that_changes_between_two_questions_reaches_nobody_but_the_first(net: World, kind: str) -> None:
    """DNS rebinding: the address that was checked is the one that is connected to."""
    asked = count()

    def changing() -> list[str]:
        """Right for the first look-up, of both families, and wrong from then on."""
        return [SERVER] if next(asked) < 2 else ["127.0.0.1"]

    net.names.records["rebinding.test"] = changing
    with net.serving(answer if kind == "absolute" else greet) as service:
        assert hears(net, kind, "rebinding.test", service.port) == SERVED[kind]
        assert [kind_of for _, kind_of in sorted(net.names.asked)] == [1, 28]
        assert {syn.target for syn in to_servers(net)} == {SERVER}
        assert hears(net, kind, "rebinding.test", service.port) == FORBIDDEN[kind]
        assert to_servers(net) == []


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_name_that_nobody_has_is_told_as_such(net: World, kind: str) -> None:
    assert hears(net, kind, "nobody.test", 8080) == {"socks5": "socks 4"}.get(kind, "502")
    assert to_servers(net) == []


@pytest.mark.parametrize("protocol", [TCP, MPTCP], ids=["tcp", "mptcp"])
@pytest.mark.parametrize("source", [STRANGER, STRANGER6])
@pytest.mark.parametrize("kind", KINDS)
def test_stranger_is_refused(net: World, running: Converter, kind: str, source: str, protocol: int) -> None:
    before = running.outcomes(LISTENER[kind]).get("stranger", 0)
    with net.serving(greet) as service:
        target = SERVER6 if ":" in source else SERVER
        assert (
            hears(net, kind, target, service.port, protocol, source)
            == {
                **FORBIDDEN,
                "socks5": "socks method 0xff",
            }[kind]
        )
        assert service.peers == []
    assert running.outcomes(LISTENER[kind])["stranger"] == before + 1
    assert to_servers(net) == []


# What the gateway itself sends to the port comes back to a listener of its own.
LOOPS = {
    "tproxy": f"""table inet loop {{
        chain output {{
            type route hook output priority mangle;
            tcp dport 8888 meta mark set 1;
        }}
        chain prerouting {{
            type filter hook prerouting priority mangle;
            iif lo tcp dport 8888 tproxy to :{PORTS["tproxy"]} meta mark set 1 accept;
        }}
    }}""",
    "redirect": f"""table inet loop {{
        chain output {{
            type nat hook output priority -100;
            tcp dport 8888 redirect to :{PORTS["redirect"]};
        }}
    }}""",
}


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@pytest.mark.parametrize("how", TRANSPARENT)
@pytest.mark.parametrize("kind", KINDS)
def test_converter_whose_own_connections_come_back_to_it_makes_one_alone(
    net: World, running: Converter, kind: str, how: str, host: str
) -> None:
    before = running.outcomes(how).get("loop", 0)
    # Without its own addresses among the clients' it would be a stranger to itself.
    networks = CONFIG.replace('"fd00::/8"', '"fd00::/8", "203.0.113.0/24", "2001:db8::/64"')
    net.nft(LOOPS[how])
    try:
        with reloaded(running, networks):
            heard = hears(net, kind, host, 8888)
    finally:
        net.nft("delete table inet loop")
    assert heard in ("reset", "502", "closed", "socks 5", "convert 96")
    assert running.outcomes(how)["loop"] == before + 1
    assert len(to_servers(net)) == 1


def test_converter_is_no_open_proxy_by_default(net: World) -> None:
    """Without client networks it serves its own machine, at loopback alone."""
    default = '[[listen]]\nkind = "http"\naddress = "127.0.0.1:3129"\n'
    net.intercept("")
    with net.converter(default + '[metrics]\naddress = "127.0.0.1:9099"\n'), net.serving(answer) as service:
        with pytest.raises(ConnectionError):
            net.connect(GATEWAY, 3129)
        with net.connect("127.0.0.1", 3129, node=net.gateway) as connection:
            connection.sendall(request("absolute", SERVER, service.port))
            assert take_head(connection).startswith(b"HTTP/1.1 200 ")


HEAD = "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n"
HIDDEN = "GET http://{at}/hidden HTTP/1.1\r\nHost: {at}\r\n\r\n"
CHUNKED = HEAD + "Transfer-Encoding: chunked\r\n\r\n"
# Each could be read in two ways; behind each is a request that nobody shall see.
SMUGGLING = {
    "length-and-chunked": HEAD + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked-and-length": HEAD + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two-lengths": HEAD + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "list-of-lengths": HEAD + "Content-Length: 0, 5\r\n\r\n",
    "signed-length": HEAD + "Content-Length: +0\r\n\r\n",
    "negative-length": HEAD + "Content-Length: -1\r\n\r\n",
    "hexadecimal-length": HEAD + "Content-Length: 0x0\r\n\r\n",
    "length-with-underscore": HEAD + "Content-Length: 1_0\r\n\r\n",
    "length-too-long": HEAD + "Content-Length: 99999999999999999999999999\r\n\r\n",
    "empty-length": HEAD + "Content-Length: \r\n\r\n",
    "space-before-colon": HEAD + "Content-Length : 0\r\n\r\n",
    "space-before-name": HEAD + " Content-Length: 0\r\n\r\n",
    "folded": HEAD + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "bare-line-feed": HEAD.replace("\r", "") + "Content-Length: 0\n\n",
    "bare-line-feed-in-field": HEAD + "X: a\nContent-Length: 5\r\n\r\n",
    "bare-return": HEAD + "X: a\rContent-Length: 5\r\n\r\n",
    "nul": HEAD + "X: a\0b\r\n\r\n",
    "no-colon": HEAD + "Content-Length\r\n\r\n",
    "unknown-coding": HEAD + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding-with-vertical-tab": HEAD + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "identity-then-chunked": HEAD + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "chunked-twice": HEAD + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked-not-last": HEAD + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked-in-1.0": HEAD.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk-size-signed": CHUNKED + "+0\r\n\r\n",
    "chunk-size-with-prefix": CHUNKED + "0x0\r\n\r\n",
    "chunk-size-with-space": CHUNKED + " 0\r\n\r\n",
    "chunk-size-too-long": CHUNKED + "10000000000000000\r\n\r\n",
    "chunk-line-feed": CHUNKED + "0\n\n",
    "chunk-without-end": CHUNKED + "1\r\nab0\r\n\r\n",
    "chunk-extension-line-feed": CHUNKED + "0;a\nb\r\n\r\n",
    "two-hosts": HEAD + "Host: other\r\n\r\n",
    "no-host": "GET http://{at}/ HTTP/1.1\r\n\r\n",
    "userinfo": "GET http://user@{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "space-in-target": "GET http://{at}/a b HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "version-2": "GET http://{at}/ HTTP/2.0\r\nHost: {at}\r\n\r\n",
    "version-lower-case": "GET http://{at}/ http/1.1\r\nHost: {at}\r\n\r\n",
    "tab-for-space": "GET\thttp://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
}


@pytest.mark.parametrize("vector", SMUGGLING)
def test_ambiguous_request_is_refused_and_hides_no_other(net: World, running: Converter, vector: str) -> None:
    seen: list[bytes] = []

    def origin(connection: socket.socket) -> None:
        connection.settimeout(0.2)
        data, _ = read_all(connection, 0.3)
        seen.append(data)

    with net.serving(origin) as service, proxy(net, "absolute") as connection:
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
        with proxy(net, "absolute") as connection:
            with suppress(ConnectionError):
                connection.sendall(head + b"\r\n\r\n")
            data, ended = read_all(connection, 5)
            assert ended in ("closed", "reset")
            # A client that sends more than is read for the answer's sake may lose the answer to a reset.
            assert data.split()[1:2] in ([b"431"], [b"414"], [b"400"], [b"501"], [])
    assert running.resident() - before < 4 << 20
    assert to_servers(net) == []


@pytest.mark.parametrize("fields", [100, 10_000])
def test_too_many_fields_are_refused_with_431(net: World, fields: int) -> None:
    with proxy(net, "absolute") as connection:
        head = b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n"
        lines = [b"X-%d: %s\r\n" % (number, b"v" * (1000 if fields == 100 else 1)) for number in range(fields)]
        with suppress(ConnectionError):
            connection.sendall(head + b"".join(lines))
        data, _ = read_all(connection, 5)
        assert data.startswith(b"HTTP/1.1 431 ")
    assert to_servers(net) == []


GOOD = convert_connect(SERVER, 8080)
MALFORMED = {
    "version-0": (convert_message(GOOD, version=0), "convert 0"),
    "version-2": (convert_message(GOOD, version=2), "convert 0"),
    "magic": (convert_message(GOOD, magic=0x2264), "reset"),
    "length-0": (convert_message(GOOD, length=0), "reset"),
    "empty": (convert_message(), "convert 1"),
    "length-short": (convert_message(GOOD, length=3), "convert 1"),
    "tlv-length-0": (convert_message(b"\x0a\0" + GOOD[2:]), "convert 1"),
    "tlv-past-the-end": (convert_message(b"\x0a\xff" + GOOD[2:]), "convert 1"),
    "unknown": (convert_message(b"\x63\1\0\0", GOOD), "convert 2"),
    "twice": (convert_message(GOOD, GOOD), "convert 1"),
    "port-0": (convert_message(convert_connect(SERVER, 0)), "convert 1"),
    "multicast": (convert_message(convert_connect("224.0.0.1", 80)), "convert 1"),
    "error-from-client": (convert_message(b"\x1e\1\1\0"), "convert 2"),
    "http": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "reset"),
}


@pytest.mark.parametrize("vector", MALFORMED)
def test_malformed_convert_message_gets_its_error_and_an_orderly_end(net: World, vector: str) -> None:
    message, expected = MALFORMED[vector]
    with proxy(net, "convert", MPTCP) as connection:
        connection.sendall(message)
        with pytest.raises(Refused) as refused:
            convert_reply(connection)
        assert refused.value.args[0] == expected
        if expected != "reset":
            # Section 6.2.2: not a reset, which could overtake the error.
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection, 3) == (b"", "closed")
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", ["socks5", "convert", "connect"])
@pytest.mark.parametrize("garbage", [b"\0" * 512, b"\xff" * 512, bytes(range(256)) * 4, b"\x16\x03\x01" + bytes(500)])
def test_garbage_ends_the_connection_and_nothing_else(
    net: World, running: Converter, kind: str, garbage: bytes
) -> None:
    with proxy(net, kind) as connection:
        connection.sendall(garbage)
        _, ended = read_all(connection, 5)
        assert ended in ("closed", "reset")
    running.wait_until_idle()
    assert to_servers(net) == []


@pytest.mark.parametrize("kind", KINDS)
def test_dead_server_is_told_and_never_a_success(net: World, kind: str) -> None:
    """A reset of the server's, and nobody at the address at all."""
    refused = {"socks5": "socks 5", "convert": "convert 96", "tproxy": "reset", "redirect": "reset"}
    assert hears(net, kind, SERVER, 4) == refused.get(kind, "502")
    start = time.monotonic()
    silent = {"socks5": "socks 4", "convert": "convert 65", "tproxy": "reset", "redirect": "reset"}
    net.nft("table ip dead { chain input { type filter hook input priority 0; tcp dport 5 drop; }; }", net.server)
    try:
        assert hears(net, kind, SERVER, 5) == silent.get(kind, "504")
    finally:
        net.nft("delete table ip dead", net.server)
    assert 0.9 < time.monotonic() - start < 3
