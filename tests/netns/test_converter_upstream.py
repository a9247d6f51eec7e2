"""How the native converter connects to servers: from where, to which address, and what it tells them."""

import signal
import socket
import time
from pathlib import Path

import pytest

from tests.netns.converter_clients import (
    ALL_KINDS,
    TRANSPARENT,
    get,
    hears,
    opened,
    proxy,
    read_all,
    request,
    reset,
    take,
    take_head,
)
from tests.netns.converter_services import SERVED, SERVICE, answer, echo, greet
from tests.netns.converter_world import ALL, SERVER, SERVER6, World, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@ALL_KINDS
def test_server_is_told_the_client_by_the_proxy_protocol(conv: World, kind: str, host: str) -> None:
    heads: list[bytes] = []

    def told(connection: socket.socket) -> None:
        head = take(connection, 16)
        heads.append(head + take(connection, int.from_bytes(head[14:16], "big")))
        connection.sendall(b"hello") if kind != "absolute" else answer(connection)
        connection.recv(1)

    with conv.converter(ALL + "[upstream]\nproxy_protocol = true\n"), conv.serving(told) as service:
        # The server's family is not the client's on the way to a proxy.
        assert hears(conv, kind, host, service.port) == SERVED[kind]
    (head,) = heads
    assert head[:13] == b"\r\n\r\n\0\r\nQUIT\n\x21"
    six = head[13] == 0x21
    family, length = (socket.AF_INET6, 16) if six else (socket.AF_INET, 4)
    assert six == (":" in host)
    source, destination = head[16 : 16 + length], head[16 + length : 16 + 2 * length]
    known = {"fd00:1::2", "10.0.1.2", "::ffff:10.0.1.2"}
    assert socket.inet_ntop(family, source) in known
    assert socket.inet_ntop(family, destination) == host
    assert int.from_bytes(head[18 + 2 * length : 20 + 2 * length], "big") == service.port


@ALL_KINDS
def test_mark_and_source_address_are_those_of_the_settings(conv: World, kind: str) -> None:
    settings = '[upstream]\nmark = 77\nsource4 = "10.7.0.1"\nsource6 = "2001:db8::77"\n'
    conv.gateway.ip("address", "add", "2001:db8::77/64", "dev", "origins", "nodad")
    conv.nft(
        "table inet marked { chain out { type filter hook output priority 0; meta mark 77 tcp flags syn counter; }; }"
    )
    try:
        with conv.converter(ALL + settings), conv.serving(SERVICE[kind]) as service:
            for host, source in ((SERVER, "10.7.0.1"), (SERVER6, "2001:db8::77")):
                assert hears(conv, kind, host, service.port) == SERVED[kind]
                assert service.peers[-1][0] == source
        assert "counter packets 2 " in conv.gateway.run("nft", "list", "table", "inet", "marked")
    finally:
        conv.nft("delete table inet marked")
        conv.gateway.ip("address", "delete", "2001:db8::77/64", "dev", "origins")


@ALL_KINDS
def test_server_is_offered_mptcp_if_asked_for(conv: World, kind: str) -> None:
    with conv.converter(ALL + "[upstream]\nmptcp = true\n"), conv.serving(SERVICE[kind]) as service:
        conv.syns()
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
        assert [syn.with_mptcp for syn in conv.syns() if syn.port == service.port][:1] == [True]


def fast_opens(conv: World) -> int:
    """Connections to the server whose SYN brought data, so far."""
    counters = conv.server.run("nstat", "-asz", "TcpExtTCPFastOpenPassive")
    return int(counters.split()[-2])


@pytest.mark.parametrize(
    ("kind", "host", "proxy_protocol"),
    [
        ("connect", SERVER, False),
        ("socks5", SERVER6, False),
        ("convert", SERVER, False),
        ("convert", SERVER, True),
        ("connect", SERVER6, True),
    ],
)
def test_what_came_early_is_in_the_syn_if_that_is_allowed(
    conv: World, kind: str, host: str, proxy_protocol: bool
) -> None:
    settings = f"[upstream]\nfast_open = true\nproxy_protocol = {str(proxy_protocol).lower()}\n"
    conv.server.sysctl(net__ipv4__tcp_fastopen=0x402)  # every listener takes data in SYNs, for a cookie
    try:
        with conv.converter(ALL + settings), conv.serving(echo) as service, conv.serving(greet) as first_speaker:
            before = fast_opens(conv)
            for _ in range(3):
                with opened(conv, kind, host, service.port, early=b"early") as client:
                    echoed = read_all(client, 0.3)[0]
                    assert echoed.endswith(b"early")
                    assert proxy_protocol == (len(echoed) > len(b"early"))
            # The first one got the cookie, which is kept for the server's address.
            assert (fast_opens(conv) - before in (2, 3)) != proxy_protocol
            if not proxy_protocol:
                assert hears(conv, kind, host, first_speaker.port) == "hello"
    finally:
        conv.server.sysctl(net__ipv4__tcp_fastopen=1)


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@pytest.mark.parametrize("kind", TRANSPARENT)
def test_what_came_before_a_client_was_accepted_is_in_the_syn_if_that_is_allowed(
    conv: World, kind: str, host: str
) -> None:
    conv.server.sysctl(net__ipv4__tcp_fastopen=0x402)
    try:
        with conv.converter(ALL + "[upstream]\nfast_open = true\n") as converter, conv.serving(echo) as service:
            before = fast_opens(conv)
            for _ in range(3):
                converter.popen.send_signal(signal.SIGSTOP)
                with opened(conv, kind, host, service.port, early=b"early") as client:
                    converter.popen.send_signal(signal.SIGCONT)
                    assert take(client, 5) == b"early"
            assert fast_opens(conv) - before in (2, 3)
    finally:
        conv.server.sysctl(net__ipv4__tcp_fastopen=1)


def test_a_client_that_broke_off_before_it_was_accepted_is_not_connected(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(echo) as service:
        converter.popen.send_signal(signal.SIGSTOP)
        reset(opened(conv, "tproxy", SERVER, service.port))
        converter.popen.send_signal(signal.SIGCONT)
        eventually(lambda: [line["outcome"] for line in converter.lines()] == ["client-reset"])
        assert service.peers == []


def test_servers_and_clients_see_via_if_that_is_asked_for(conv: World) -> None:
    seen: list[bytes] = []

    def recording(connection: socket.socket) -> None:
        seen.append(take_head(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with conv.converter(ALL + "[http]\nvia = true\n"), conv.serving(recording) as service:
        with get(conv, "absolute", service.port) as client:
            assert b"\r\nVia: 1.1 tributary-" in take_head(client)
        (asked,) = seen
        own = asked.partition(b"\r\nVia: ")[2].partition(b"\r\n")[0]
        with proxy(conv, "absolute") as client:
            client.sendall(request("absolute", SERVER, service.port, fields=f"Via: 1.1 a, {own.decode()}\r\n"))
            assert take_head(client).startswith(b"HTTP/1.1 508 ")
        assert len(seen) == 1


@pytest.mark.parametrize("kind", ["connect"])
def test_dead_ipv6_address_costs_a_quarter_of_a_second(conv: World, kind: str) -> None:
    conv.names.records["dual.test"] = [SERVER6, SERVER]
    conv.nft("table ip6 dead { chain in { type filter hook input priority 0; meta l4proto tcp drop; }; }", conv.server)
    try:
        with conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
            times = []
            for _ in range(3):
                begin = time.monotonic()
                assert hears(conv, kind, "dual.test", service.port) == SERVED[kind]
                times.append(time.monotonic() - begin)
            # Where the answer with IPv6 addresses comes late its address is not tried at all.
            assert 0.24 < sorted(times)[1] < 3  # not the ten that a connection may take
            assert {peer[0] for peer in service.peers} == {"203.0.113.1"}
    finally:
        conv.nft("delete table ip6 dead", conv.server)


@pytest.mark.parametrize("name", ["resolv.conf", "hosts"])
def test_the_systems_name_servers_and_hosts_are_those_of_now(conv: World, name: str, tmp_path: Path) -> None:
    """At a machine's start the converter may be there before what its networks say."""
    late, file = f"late-{name}.test", tmp_path / name
    file.touch()
    said = {"resolv.conf": f"nameserver {SERVER}\n", "hosts": f"{SERVER} {late}\n"}[name]
    conv.names.records["late-resolv.conf.test"] = [SERVER]
    own_file = ("unshare", "--mount", "sh", "-c", f'mount --bind {file} /etc/{name} && exec "$0" "$@"')
    config = ALL + "[names]\n" * (name == "resolv.conf")
    with conv.converter(config, None, *own_file), conv.serving(greet) as service:
        assert hears(conv, "connect", late, service.port) != "hello"
        file.write_text(said)
        assert hears(conv, "connect", late, service.port) == "hello"


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
def test_ipv6_address_that_answers_is_preferred(conv: World, kind: str) -> None:
    conv.names.records["dual.test"] = [SERVER, SERVER6]
    with conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        assert hears(conv, kind, "dual.test", service.port) == SERVED[kind]
        assert [peer[0] for peer in service.peers] == ["2001:db8::1"]


@ALL_KINDS
def test_dead_server_is_told_and_never_a_success(conv: World, kind: str) -> None:
    """A reset of the server's, and nobody at the address at all."""
    with conv.converter(ALL + '[timeouts]\nconnect = "1s"\n'):
        refused = {"socks5": "socks 5", "convert": "convert 96", "tproxy": "reset", "redirect": "reset"}
        assert hears(conv, kind, SERVER, 4) == refused.get(kind, "502")
        start = time.monotonic()
        silent = {"socks5": "socks 4", "convert": "convert 65", "tproxy": "reset", "redirect": "reset"}
        conv.nft("table ip dead { chain input { type filter hook input priority 0; tcp dport 5 drop; }; }", conv.server)
        try:
            assert hears(conv, kind, SERVER, 5) == silent.get(kind, "504")
        finally:
            conv.nft("delete table ip dead", conv.server)
        assert 0.9 < time.monotonic() - start < 3


@pytest.mark.parametrize(("lost", "used"), [(1, SERVER6), (28, SERVER)])
def test_name_server_that_loses_questions_for_one_family_costs_a_moment(conv: World, lost: int, used: str) -> None:
    conv.names.records["half.test"] = [SERVER6, SERVER]
    conv.names.lost.add(lost)
    try:
        with conv.converter(ALL) as converter, conv.serving(greet) as service:
            start = time.monotonic()
            assert hears(conv, "connect", "half.test", service.port) == "hello"
            assert time.monotonic() - start < 1.5  # the resolver itself would give up after four seconds
            eventually(lambda: len(converter.lines()) == 1)
            assert converter.lines()[0]["server"].rpartition(":")[0].strip("[]") == used
    finally:
        conv.names.lost.clear()
