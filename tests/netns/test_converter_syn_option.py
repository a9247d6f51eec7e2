"""The option in a SYN that tells the next converter where to, written by the kernel for a program of ours."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.netns.connections import Refused, passes, read_all
from tests.netns.converter_clients import ask
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import echo
from tests.netns.converter_world import ALL, CLIENT, CLIENTS, GATEWAY, OUTSIDE, PORTS, SERVER6, World
from tests.netns.test_converter_early_syn import given_up, seen
from tests.netns.world import eventually

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
    with conv.converter(CLIENTS + way(NEXT) + listen, *OUR_MOUNTS, *wrapper, node=conv.client) as converter:
        yield converter


def through(conv: World, host: str, port: int) -> socket.socket:
    """A tunnel from lan to the server; raises Refused."""
    connection = conv.connect(HOME, PROXY, node=conv.lan)
    ask(connection, "connect", host, port)
    return connection


def echoes(conv: World, host: str, port: int) -> bool:
    """Whether a megabyte comes back as it went."""
    with through(conv, host, port) as client:
        for number in range(16):
            block = bytes([number]) * (1 << 16)
            assert passes(client, client, block)
        client.shutdown(socket.SHUT_WR)
        return read_all(client)[0] == b""


def told(converter: Converter) -> int:
    """SYNs that told it where to, also those that it looked at when the request was there: here nothing takes time."""
    outcomes = seen(converter)
    return outcomes.get("started", 0) + outcomes.get("duplicate", 0)


def test_the_next_converter_begins_with_the_syn(conv: World) -> None:
    """For the converter before: the server sees the gateway's address, as without the option."""
    with conv.converter(LISTENING) as gateway, telling(conv), conv.serving(echo) as service:
        for _ in range(3):
            assert echoes(conv, SERVER, service.port)
        assert told(gateway) == 3
        assert ([peer for peer, _ in service.peers], given_up(gateway)) == ([OUTSIDE] * 3, 0)
        eventually(lambda: gateway.served() == ["ok"] * 3)
        assert {line["client"].rpartition(":")[0] for line in gateway.lines()} == {CLIENT}


def test_it_waits_for_nothing_else(conv: World) -> None:
    """The handshake between the converters never ends; the server's begins nevertheless, and is given up in time."""
    with (
        conv.converter(LISTENING) as gateway,
        telling(conv),
        conv.serving(echo) as service,
        conv.filtered(conv.client, f"tcp sport {PORTS['convert']} drop"),
        conv.connect(HOME, PROXY, node=conv.lan) as client,
    ):
        client.sendall(f"CONNECT {SERVER}:{service.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        eventually(lambda: service.peers)
        assert gateway.lines() == []
        eventually(lambda: given_up(gateway) >= 1)


@pytest.mark.parametrize(
    ("host", "rule"),
    [(SERVER6, "accept"), (SERVER, f"tcp dport {PORTS['convert']} reset tcp option 254")],
    ids=["ipv6", "option-lost"],
)
def test_a_server_that_the_option_does_not_name_is_reached_the_slow_way(conv: World, host: str, rule: str) -> None:
    with (
        conv.converter(LISTENING) as gateway,
        telling(conv),
        conv.serving(echo) as service,
        conv.filtered(conv.client, rule, "output"),
    ):
        assert echoes(conv, host, service.port)
        assert seen(gateway) == {"no-destination": 1}


def test_a_next_converter_that_does_not_know_it_serves_all_the_same(conv: World) -> None:
    with conv.converter(ALL), telling(conv), conv.serving(echo) as service:
        assert echoes(conv, SERVER, service.port)


@pytest.mark.parametrize("target", ["10.7.0.2", "127.0.0.1", GATEWAY])
def test_what_may_not_be_reached_is_not_begun(conv: World, target: str) -> None:
    with conv.converter(LISTENING) as gateway, telling(conv):
        with pytest.raises(Refused, match="403"):
            through(conv, target, 80)
        assert "started" not in seen(gateway)


def test_the_icmp_error_that_ends_what_was_begun_is_told(conv: World) -> None:
    """As where the request alone begins it: a port unreachable is no reset."""
    with (
        conv.filtered(conv.server, "tcp dport 9 reject with icmp type port-unreachable", family="ip"),
        conv.converter(LISTENING) as gateway,
        telling(conv),
    ):
        with pytest.raises(Refused, match="502"):
            through(conv, SERVER, 9)
        eventually(lambda: gateway.served() == ["unreachable"])
        assert told(gateway) == 1


def test_it_goes_on_from_converter_to_converter(conv: World) -> None:
    """The one in the middle tells the last one when its own SYN has come."""
    last = f"{GATEWAY}:2301"
    middle = LISTENING.replace(CONVERT, CONVERT + "via_gateway = true\n") + way(last)
    end = f'{CLIENTS}[metrics]\n[early_syn]\n[[listen]]\n{CONVERT}address = "{last}"\nearly_syn = true\n'
    with (
        conv.converter(end, *OUR_MOUNTS) as behind,
        conv.converter(middle, *OUR_MOUNTS) as converter,
        telling(conv),
        conv.serving(echo) as service,
    ):
        assert echoes(conv, SERVER, service.port)
        assert told(converter) == 1
        eventually(lambda: converter.served() == behind.served() == ["ok"])
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


def test_a_circle_is_refused_and_ends(conv: World) -> None:
    """Two converters that are each other's next one: SYNs go to and fro until the request is there, then no more."""
    own, other = f"{GATEWAY}:{PORTS['convert']}", f"{GATEWAY}:2301"
    check = "loop_check = true\n"
    one = LISTENING.replace(CONVERT, CONVERT + "via_gateway = true\n") + way(other) + check
    two = f'{CLIENTS}[metrics]\n[early_syn]\ntimeout = "1s"\n[[listen]]\n{CONVERT}address = "{other}"\n'
    two += "via_gateway = true\nearly_syn = true\n" + way(own) + check
    with (
        conv.converter(one, *OUR_MOUNTS) as first,
        conv.converter(two, *OUR_MOUNTS) as second,
        telling(conv),
    ):
        with pytest.raises(Refused, match="502"):
            through(conv, SERVER, 80)
        first.wait_until_idle()
        second.wait_until_idle()
        assert "loop" in first.served() + second.served()
        assert seen(first).get("started", 0) < 100
