"""The option in a SYN that tells the next converter where to, written by the kernel for a program of ours."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.netns.converter_clients import read_all, take, take_head
from tests.netns.converter_services import echo
from tests.netns.converter_world import (
    ALL,
    CLIENT,
    CLIENTS,
    GATEWAY,
    PORTS,
    SERVER,
    SERVER6,
    Converter,
    World,
    needs_tools,
)
from tests.netns.test_converter_early_syn import given_up, seen
from tests.netns.world import eventually

pytestmark = needs_tools

HOME, PROXY = "10.0.9.1", 3128
NEXT = f"{GATEWAY}:{PORTS['convert']}"
CONVERT = 'kind = "convert"\nname = "convert"\n'
LISTENING = '[early_syn]\ntimeout = "1s"\n' + ALL.replace(CONVERT, CONVERT + "early_syn = true\n")
"""The gateway's converter, which begins its connections by such SYNs."""
OUR_MOUNTS = ("nsenter", f"--mount=/proc/{os.getpid()}/ns/mnt")
"""ip-netns(8) has its commands see another /sys, without control groups."""


def way(address: str) -> str:
    return f'[gateway]\naddress = "{address}"\nmptcp = false\nsyn_option = true\nfallback = "refuse"\n'


@contextmanager
def telling(conv: World, *wrapper: str) -> Iterator[Converter]:
    """A converter in the client's namespace that carries lan's connections to the gateway's, and tells where to."""
    listen = f'[[listen]]\nkind = "http"\naddress = "[::]:{PROXY}"\nvia_gateway = true\n'
    with conv.converter(CLIENTS + way(NEXT) + listen, conv.client, *OUR_MOUNTS, *wrapper) as converter:
        yield converter


def through(conv: World, host: str, port: int) -> socket.socket:
    """A tunnel from lan to the server."""
    connection = conv.connect(HOME, PROXY, node=conv.lan)
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    connection.sendall(f"CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
    assert take_head(connection).startswith(b"HTTP/1.1 200")
    return connection


def echoes(conv: World, host: str, port: int) -> bool:
    """Whether a megabyte comes back as it went."""
    with through(conv, host, port) as client:
        for number in range(16):
            block = bytes([number]) * (1 << 16)
            client.sendall(block)
            assert take(client, len(block)) == block
        client.shutdown(socket.SHUT_WR)
        return read_all(client)[0] == b""


def told(converter: Converter) -> int:
    """SYNs that told it where to, also those that it looked at when the request was there: here nothing takes time."""
    outcomes = seen(converter)
    return outcomes.get("started", 0) + outcomes.get("duplicate", 0)


def test_the_next_converter_begins_with_the_syn(conv: World) -> None:
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        for _ in range(3):
            assert echoes(conv, SERVER, service.port)
        assert told(gateway) == 3
        assert (len(service.peers), given_up(gateway)) == (3, 0)
        eventually(lambda: [line["outcome"] for line in gateway.lines()] == ["ok"] * 3)


def test_it_waits_for_nothing_else(conv: World) -> None:
    """The handshake between the converters never ends; the server's begins nevertheless, and is given up in time."""
    mute = f"type filter hook input priority 0; tcp sport {PORTS['convert']} drop;"
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        conv.nft(f"table ip mute {{ chain in {{ {mute} }}; }}", conv.client)
        try:
            with conv.connect(HOME, PROXY, node=conv.lan) as client:
                client.sendall(f"CONNECT {SERVER}:{service.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                eventually(lambda: service.peers)
                assert gateway.lines() == []
                eventually(lambda: given_up(gateway) >= 1)
        finally:
            conv.nft("delete table ip mute", conv.client)


def test_a_server_of_ipv6_and_a_client_that_tells_nothing_are_served_the_slow_way(conv: World) -> None:
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        assert echoes(conv, SERVER6, service.port)
        assert seen(gateway) == {"no-destination": 1}


def test_where_the_option_is_lost_on_the_way_nothing_else_is(conv: World) -> None:
    strip = f"type filter hook output priority 0; tcp dport {PORTS['convert']} reset tcp option 254;"
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        conv.nft(f"table ip strip {{ chain out {{ {strip} }}; }}", conv.client)
        try:
            assert echoes(conv, SERVER, service.port)
        finally:
            conv.nft("delete table ip strip", conv.client)
        assert seen(gateway) == {"no-destination": 1}


def test_a_next_converter_that_does_not_know_it_serves_all_the_same(conv: World) -> None:
    with conv.converter(ALL), telling(conv), conv.serving(echo) as service:
        assert echoes(conv, SERVER, service.port)


@pytest.mark.parametrize("target", ["10.7.0.2", "127.0.0.1", GATEWAY])
def test_what_may_not_be_reached_is_not_begun(conv: World, target: str) -> None:
    with conv.converter(LISTENING) as gateway, telling(conv), conv.connect(HOME, PROXY, node=conv.lan) as client:
        client.sendall(f"CONNECT {target}:80 HTTP/1.1\r\nHost: {target}:80\r\n\r\n".encode())
        assert take_head(client).startswith(b"HTTP/1.1 403")
        assert "started" not in seen(gateway)


def test_it_goes_on_from_converter_to_converter(conv: World) -> None:
    """The one in the middle tells the last one when its own SYN has come."""
    last = f"{GATEWAY}:2301"
    middle = LISTENING.replace(CONVERT, CONVERT + "via_gateway = true\n") + way(last)
    end = f'{CLIENTS}[metrics]\n[early_syn]\n[[listen]]\n{CONVERT}address = "{last}"\nearly_syn = true\n'
    with ExitStack() as stack:
        converters = [stack.enter_context(conv.converter(config, None, *OUR_MOUNTS)) for config in (end, middle)]
        stack.enter_context(telling(conv))
        service = stack.enter_context(conv.serving(echo))
        assert echoes(conv, SERVER, service.port)
        assert told(converters[1]) == 1
        eventually(lambda: all([line["outcome"] for line in each.lines()] == ["ok"] for each in converters))
        assert len(service.peers) == 1


def test_a_reload_keeps_it_and_can_end_it(conv: World) -> None:
    with conv.converter(LISTENING) as gateway, telling(conv) as converter, conv.serving(echo) as service:
        config = (converter.directory / "converter.toml").read_text()
        descriptors = converter.idle_descriptors()
        converter.reload(config)
        assert echoes(conv, SERVER, service.port)
        assert told(gateway) == 1
        eventually(lambda: converter.descriptors() == descriptors)
        converter.reload(config.replace("syn_option = true", "syn_option = false"))
        assert echoes(conv, SERVER, service.port)
        assert (told(gateway), seen(gateway)["no-destination"]) == (1, 1)
        eventually(lambda: converter.descriptors() < descriptors)


def test_without_the_right_to_it_it_says_so(conv: World) -> None:
    limit = ("setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin")
    with pytest.raises(AssertionError, match=r"gateway.syn_option \(needs CAP_BPF"), telling(conv, *limit):
        pass


def test_the_clients_address_is_no_secret_to_the_server(conv: World) -> None:
    """Who is begun for is the converter before: the server sees the gateway's address, as without the option."""
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        assert echoes(conv, SERVER, service.port)
        assert [peer for peer, _ in service.peers] == ["203.0.113.1"]
        eventually(lambda: gateway.lines())
        assert gateway.lines()[0]["client"].rpartition(":")[0] == CLIENT


def test_a_circle_is_refused_and_ends(conv: World) -> None:
    """Two converters that are each other's next one: SYNs go to and fro until the request is there, then no more."""
    own, other = f"{GATEWAY}:{PORTS['convert']}", f"{GATEWAY}:2301"
    check = "loop_check = true\n"
    one = LISTENING.replace(CONVERT, CONVERT + "via_gateway = true\n") + way(other) + check
    two = f'{CLIENTS}[metrics]\n[early_syn]\ntimeout = "1s"\n[[listen]]\n{CONVERT}address = "{other}"\n'
    two += "via_gateway = true\nearly_syn = true\n" + way(own) + check
    with ExitStack() as stack:
        converters = [stack.enter_context(conv.converter(config, None, *OUR_MOUNTS)) for config in (one, two)]
        stack.enter_context(telling(conv))
        client = stack.enter_context(conv.connect(HOME, PROXY, node=conv.lan))
        client.sendall(f"CONNECT {SERVER}:80 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert take_head(client).startswith(b"HTTP/1.1 502")
        for converter in converters:
            converter.wait_until_idle()
        assert "loop" in {line["outcome"] for converter in converters for line in converter.lines()}
        assert seen(converters[0]).get("started", 0) < 100
