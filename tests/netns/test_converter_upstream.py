import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from experiments.testbed.usage import counters
from tests.netns.connections import read_all, reset, take, take_head
from tests.netns.converter_clients import ALL_KINDS, FORBIDDEN, REFUSED, TIMED_OUT, TRANSPARENT
from tests.netns.converter_process import SERVER
from tests.netns.converter_services import SERVED, SERVICE, answer, echo, fetch, greet, respond
from tests.netns.converter_world import ALL, OUTSIDE, OUTSIDE6, SERVER6, World
from tests.netns.world import eventually, sysctl


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
        assert conv.hears(kind, host, service.port) == SERVED[kind]
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
    with (
        conv.added(conv.gateway, "-6", "address", "2001:db8::77/64 dev origins nodad"),
        conv.filtered(conv.gateway, "meta mark 77 tcp flags syn counter", "output") as table,
        conv.converter(ALL + settings),
        conv.serving(SERVICE[kind]) as service,
    ):
        for host, source in ((SERVER, "10.7.0.1"), (SERVER6, "2001:db8::77")):
            assert conv.hears(kind, host, service.port) == SERVED[kind]
            assert service.peers[-1][0] == source
        assert "counter packets 2 " in conv.gateway.run("nft", "list", "table", *table.split())


@ALL_KINDS
def test_server_is_offered_mptcp_if_asked_for(conv: World, kind: str) -> None:
    with conv.converter(ALL + "[upstream]\nmptcp = true\n"), conv.serving(SERVICE[kind]) as service:
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
        assert [syn.with_mptcp for syn in conv.syns() if syn.port == service.port][:1] == [True]


FAST_OPEN = {"net__ipv4__tcp_fastopen": 0x402}
"""Every listener takes data in SYNs, for a cookie."""


def fast_opens(conv: World) -> int:
    """Connections to the server whose SYN brought data, so far."""
    return counters(conv.server)["TcpExtTCPFastOpenPassive"]


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
    with (
        sysctl(conv.server, **FAST_OPEN),
        conv.converter(ALL + settings),
        conv.serving(echo) as service,
        conv.serving(greet) as first_speaker,
    ):
        before = fast_opens(conv)
        for _ in range(3):
            with conv.opened(kind, host, service.port, early=b"early") as client:
                echoed = read_all(client, 0.3)[0]
                assert echoed.endswith(b"early")
                assert proxy_protocol == (len(echoed) > len(b"early"))
        # The first one got the cookie, which is kept for the server's address.
        assert (fast_opens(conv) - before in (2, 3)) != proxy_protocol
        if not proxy_protocol:
            assert conv.hears(kind, host, first_speaker.port) == "hello"


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@pytest.mark.parametrize("kind", TRANSPARENT)
def test_what_came_before_a_client_was_accepted_is_in_the_syn_if_that_is_allowed(
    conv: World, kind: str, host: str
) -> None:
    with (
        sysctl(conv.server, **FAST_OPEN),
        conv.converter(ALL + "[upstream]\nfast_open = true\n") as converter,
        conv.serving(echo) as service,
    ):
        before = fast_opens(conv)
        for _ in range(3):
            converter.popen.send_signal(signal.SIGSTOP)
            with conv.opened(kind, host, service.port, early=b"early") as client:
                converter.popen.send_signal(signal.SIGCONT)
                assert take(client, 5) == b"early"
        assert fast_opens(conv) - before in (2, 3)


def test_a_client_that_broke_off_before_it_was_accepted_is_not_connected(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.serving(echo) as service:
        converter.popen.send_signal(signal.SIGSTOP)
        reset(conv.opened("tproxy", SERVER, service.port))
        converter.popen.send_signal(signal.SIGCONT)
        eventually(lambda: converter.served() == ["client-reset"])
        assert service.peers == []


def test_servers_and_clients_see_via_if_that_is_asked_for(conv: World) -> None:
    seen: list[bytes] = []

    def recording(connection: socket.socket) -> None:
        seen.append(take_head(connection))
        respond(connection, b"")

    with conv.converter(ALL + "[http]\nvia = true\n"), conv.serving(recording) as service:
        with conv.get("absolute", service.port) as client:
            assert b"\r\nVia: 1.1 tributary-" in take_head(client)
        (asked,) = seen
        own = asked.partition(b"\r\nVia: ")[2].partition(b"\r\n")[0]
        with conv.proxy("absolute") as client:
            head, _ = fetch(client, service.port, fields=f"Via: 1.1 a, {own.decode()}\r\n")
            assert head.startswith(b"HTTP/1.1 508 ")
        assert len(seen) == 1


@ALL_KINDS
def test_dead_server_is_told_and_never_a_success(conv: World, kind: str) -> None:
    """A reset of the server's, and nobody at the address at all."""
    with (
        conv.converter(ALL + '[timeouts]\nconnect = "1s"\n'),
        conv.filtered(conv.server, "tcp dport 5 drop"),
    ):
        assert conv.hears(kind, SERVER, 4) == REFUSED[kind]
        start = time.monotonic()
        assert conv.hears(kind, SERVER, 5) == TIMED_OUT[kind]
        assert 0.9 < time.monotonic() - start < 3


# --- Routes are asked for as connections will have them: with their mark and source address ---

FAR, FAR6 = "198.51.100.7", "2001:db8:7::7"
RULES = {
    "mark": ("fwmark 77", "fwmark 77", "mark = 77"),
    "source": (f"from {OUTSIDE}", "from 2001:db8::1", f'source4 = "{OUTSIDE}"\nsource6 = "2001:db8::1"'),
}


@pytest.fixture(params=RULES)
def settings(conv: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """The gateway with a default route for connections of these settings alone."""
    four, six, upstream = RULES[request.param]
    with ExitStack() as stack:
        # The kernel looks for the way back without the mark (rp_filter).
        back = {"net__ipv4__conf__all__rp_filter": 0, "net__ipv4__conf__origins__rp_filter": 0}
        stack.enter_context(sysctl(conv.gateway, **back))
        for family, rule, via, far in (("-4", four, SERVER, f"{FAR}/32"), ("-6", six, SERVER6, f"{FAR6}/128")):
            conv.gateway.ip(family, "route", "delete", "default")
            stack.callback(conv.gateway.ip, family, "route", "add", "default", "via", via)
            for node, kind, what in (
                (conv.server, "address", f"{far} dev lo"),
                (conv.gateway, "route", f"default via {via} table 77"),
                (conv.gateway, "rule", f"{rule} lookup 77"),
            ):
                stack.enter_context(conv.added(node, family, kind, what))
        yield f"[upstream]\n{upstream}\n"


@ALL_KINDS
def test_target_with_a_route_for_its_mark_or_source_alone_is_reached(conv: World, settings: str, kind: str) -> None:
    with conv.converter(ALL + settings), conv.serving(SERVICE[kind]) as service:
        for host in (FAR, FAR6):
            assert conv.hears(kind, host, service.port) == SERVED[kind]


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5", "convert"])
def test_own_address_is_known_with_a_mark_and_a_source_as_well(conv: World, settings: str, kind: str) -> None:
    with conv.converter(ALL + settings):
        for host in (OUTSIDE, OUTSIDE6):
            assert conv.hears(kind, host, 8443) == FORBIDDEN[kind]
        assert conv.syns_to_servers() == []


@pytest.mark.parametrize("kind", ["connect", "socks5", "convert"])
def test_address_that_becomes_the_machines_own_is_refused_while_it_is(conv: World, kind: str) -> None:
    own = ("-4", "address", f"{FAR}/32 dev lo")
    with conv.added(conv.server, *own), conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        for _ in range(3):
            assert conv.hears(kind, FAR, service.port) == SERVED[kind]
            with conv.added(conv.gateway, *own):
                assert conv.hears(kind, FAR, service.port) == FORBIDDEN[kind]
