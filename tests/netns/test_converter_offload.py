"""Connections that the converter offloads to the kernel half-way: every byte arrives, and both ends learn of the end.

The client's cable is `wired`, the server's `origins`.
"""

import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.testbed import native
from experiments.testbed.node import Node
from tests.netns.connections import read_all, reset, take
from tests.netns.converter_clients import ask
from tests.netns.converter_process import SERVER, Converter, complaint
from tests.netns.converter_services import stream
from tests.netns.converter_world import CLIENT, CLIENTS, GATEWAY, GATEWAY6, PORTS, SERVER6, Service, World
from tests.netns.forging import ACK, FIN, RST, SYN, forged, send
from tests.netns.short_probes import PROBED_FOR, shorten_probes
from tests.netns.world import eventually, sysctl
from tributary import cargo

pytestmark = pytest.mark.skipif(
    shutil.which("clang") is None and cargo.works(), reason="missing: clang, with which the kernel's part is built"
)

PROXY, ORIGIN = f"{GATEWAY}:{PORTS['http']}", f"{SERVER}:8080"
OFFLOAD = "mptcp = false\noffload = true\n"
LISTENERS = "".join(
    f'[[listen]]\nkind = "{kind}"\nname = "{kind}"\naddress = "{GATEWAY}:{PORTS[kind]}"\n{OFFLOAD}'
    for kind in ("http", "convert")
)
SETTINGS = '[offload]\ndevices = ["wired", "origins"]\nafter = "50MB"\n'
CONFIG = CLIENTS + SETTINGS + LISTENERS
SOON = CONFIG.replace('"50MB"', '"1MB"')
BYTES = 800_000_000
"""More than passes before slow start is seen to be over: 40 ms and more."""


def offloaded(converter: Converter) -> int:
    """Connections that were offloaded so far."""
    return int(converter.metrics()["tributary_converter_offloaded_total"])


def transfer(
    conv: World,
    converter: Converter,
    *,
    to: str = ORIGIN,
    via: str = PROXY,
    direction: str = "--verify",
    connections: int = 1,
) -> int:
    """So many transfers by way of the converter, each of which is whole; how many of them were offloaded."""
    load, lines, before = str(native.build().load), len(converter.lines()), offloaded(converter)
    bulk = ("bulk", "--bytes", str(BYTES), "--to", to, "--via-connect", via, "--connections", str(connections))
    with conv.server.start("origin", [load, "origin", "--listen", "[::]:8080"]).wait_until_ready():
        # It fails if a byte is wrong.
        conv.client.run("timeout", "60", load, *bulk, direction)
        ended = eventually(lambda: len(found := converter.lines()[lines:]) == connections and found, 30)
    for line in ended:
        assert (line["outcome"], line["up_bytes"] + line["down_bytes"] >= BYTES) == ("ok", True)
    return offloaded(converter) - before


BOTH = CONFIG.replace(GATEWAY, "[::]")
"""The same for listeners of both versions of IP."""


@pytest.mark.parametrize(
    ("direction", "config", "server", "gateway"),
    [
        ("--verify", CONFIG, SERVER, GATEWAY),
        ("--upload", CONFIG, SERVER, GATEWAY),
        ("--verify", BOTH, SERVER, GATEWAY),
        ("--upload", BOTH, f"[{SERVER6}]", f"[{GATEWAY6}]"),
    ],
)
def test_transfers_are_whole_that_are_offloaded_half_way(
    conv: World, direction: str, config: str, server: str, gateway: str
) -> None:
    with conv.converter(config) as converter:
        via = f"{gateway}:{PORTS['http']}"
        assert transfer(conv, converter, to=f"{server}:8080", via=via, direction=direction, connections=2) == 2
        converter.wait_until_idle()


def test_a_converter_in_the_middle_of_a_chain_offloads(conv: World) -> None:
    """The client's own converter takes its connections to the gateway's, by RFC 8803."""
    near = f'[[listen]]\nkind = "http"\naddress = "127.0.0.1:{PORTS["http"]}"\nvia_gateway = true\n'
    way = f'[gateway]\naddress = "{GATEWAY}:{PORTS["convert"]}"\nmptcp = false\n'
    with conv.converter(CONFIG) as converter, conv.converter(way + near, node=conv.client):
        assert transfer(conv, converter, via=f"127.0.0.1:{PORTS['http']}") == 1


@pytest.mark.parametrize(
    ("config", "proxy"),
    [(BOTH, f"[{GATEWAY6}]:{PORTS['http']}"), (CONFIG.replace('"wired", "origins"', '"origins"'), PROXY)],
    ids=["two-versions-of-ip", "a-device-that-is-not-named"],
)
def test_a_connection_that_cannot_be_offloaded_stays(conv: World, config: str, proxy: str) -> None:
    with conv.converter(config) as converter:
        assert transfer(conv, converter, via=proxy) == 0


@contextmanager
def proxied(conv: World, service: Service, node: Node | None = None) -> Iterator[socket.socket]:
    """A client that the converter has connected with the service; it is at ``node``, if given."""
    with conv.connect(GATEWAY, PORTS["http"], node=node) as client:
        ask(client, "connect", SERVER, service.port)
        yield client


def ends_of(connection: socket.socket) -> tuple[tuple[str, int], tuple[str, int]]:
    """A connection's own address and its peer's, as IPv4's packets have them."""
    own, peer = connection.getsockname(), connection.getpeername()
    return (own[0].removeprefix("::ffff:"), own[1]), (peer[0].removeprefix("::ffff:"), peer[1])


def forge(node: Node, source: tuple[str, int], destination: tuple[str, int]) -> None:
    """Segments from ``node`` that would end the connection, were their numbers right."""
    send(node, forged(source, destination, (RST, RST | ACK, FIN | ACK, SYN)))


@contextmanager
def offloaded_half_way(
    conv: World, converter: Converter, node: Node | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends' sockets of an offloaded download that goes on, the client's first; that is at ``node``, if given."""
    with conv.serving(stream(500_000_000)) as service, proxied(conv, service, node) as client:
        while not offloaded(converter):
            take(client, 1 << 20)
        yield client, service.connections[0]


def hears_a_reset(client: socket.socket) -> bool:
    """Whether there is nobody for it any more, which it may have to ask."""
    how = read_all(client, 2)[1]
    if how == "silence":
        client.settimeout(10)
        client.sendall(b"is anybody there")
        how = read_all(client)[1]
    return how == "reset"


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_of_either_end_is_told_the_other_one(conv: World, who: str) -> None:
    with conv.converter(SOON) as converter:
        with offloaded_half_way(conv, converter) as (client, server):
            if who == "client":
                reset(client)
                # Who sends meets the reset, and closes.
                eventually(lambda: server.fileno() < 0)
            else:
                reset(server)
                assert read_all(client)[1] == "reset"
        eventually(lambda: converter.served() == [f"{who}-reset"])
        converter.wait_until_idle()


def test_an_upload_that_was_left_goes_on_for_longer_than_the_converter_would_probe_its_client(conv: World) -> None:
    """A kilobyte now and then, to a server that says nothing: the frozen socket hears no answer to a probe."""
    swallowed = [0]

    def swallow(connection: socket.socket) -> None:
        while data := connection.recv(1 << 20):
            swallowed[0] += len(data)

    with conv.converter(SOON) as converter, conv.serving(swallow) as service:
        shorten_probes(converter.pid, PORTS["http"])
        with proxied(conv, service) as client:
            sent = 0
            while not offloaded(converter):
                sent += client.send(bytes(1 << 20))
            end = time.monotonic() + PROBED_FOR + 3
            while time.monotonic() < end:
                sent += client.send(bytes(1000))
                time.sleep(0.2)
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        assert swallowed[0] == sent
        eventually(lambda: converter.served() == ["ok"])


def test_forged_resets_and_ends_change_nothing_for_a_connection_that_rests(conv: World) -> None:
    """As if from either end, by who knows addresses and ports and no sequence number; then neither sends anything for
    longer than a connection stays that is over."""

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(1 << 20):
            if data.endswith(b"?"):
                connection.sendall(b"!")

    config = '[timeouts]\nhalf_closed = "1s"\n' + SOON
    with conv.converter(config) as converter, conv.serving(answer) as service, proxied(conv, service) as client:
        while not offloaded(converter):
            client.sendall(bytes(1 << 20))
        forge(conv.client, *ends_of(client))
        forge(conv.server, *ends_of(service.connections[0]))
        time.sleep(7)
        client.sendall(b"?")
        assert take(client, 1) == b"!"
        assert converter.lines() == []


def test_a_download_goes_on_whose_way_takes_shorter_packets_than_before(conv: World) -> None:
    """A router between the converter and its client tells the converter, which passes it on to the server."""
    try:
        with conv.converter(SOON) as converter, offloaded_half_way(conv, converter, conv.lan) as (client, _):
            conv.client.ip("link", "set", "home", "mtu", "1300")
            take(client, 50 << 20)
            assert converter.lines() == []
    finally:
        conv.client.ip("link", "set", "home", "mtu", "1500")
        conv.server.ip("route", "flush", "cache")


def test_a_connection_that_was_left_goes_where_routes_lead(conv: World) -> None:
    """Its client is reached by the other cable from then on, and hears nothing by the one before."""
    config = SOON.replace('"wired"', '"wired", "wireless"')
    with (
        conv.converter(config) as converter,
        offloaded_half_way(conv, converter) as (client, _),
        conv.added(conv.gateway, "-4", "route", f"{CLIENT}/32 via 10.0.2.2 dev wireless"),
        conv.filtered(conv.client, "iifname wired tcp sport 3128 drop", "prerouting", priority="raw"),
    ):
        take(client, 50 << 20)
        assert converter.lines() == []


def test_a_client_that_has_congestion_notification_stays_and_is_counted(conv: World) -> None:
    """Unless the gateway's packet filter has the converter not hear that it asks for it (docs/converter-offload.md)."""
    deaf = f"tcp dport {PORTS['http']} tcp flags & (fin | syn | rst | ack) == syn tcp flags set syn"
    with sysctl(conv.client, net__ipv4__tcp_ecn=1), conv.converter(CONFIG) as converter:
        assert transfer(conv, converter) == 0
        assert converter.metrics()['tributary_converter_not_offloaded_total{reason="ecn"}'] == 1
        with conv.filtered(conv.gateway, deaf, "prerouting", priority="raw"):
            assert transfer(conv, converter) == 1


def test_silence_ends_it_and_then_both_ends_hear_that_there_is_nobody(conv: World) -> None:
    config = '[timeouts]\nidle = "1s"\n' + SOON
    with conv.converter(config) as converter, offloaded_half_way(conv, converter) as (client, server):
        with conv.filtered(conv.client, "drop"):
            eventually(lambda: converter.served() == ["idle-timeout"])
        assert hears_a_reset(client)
        # It was sending, and has given up.
        eventually(lambda: server.fileno() < 0)


def test_a_converter_that_ends_waits_for_what_it_has_left(conv: World) -> None:
    config = '[timeouts]\ndrain = "1s"\n' + SOON
    with conv.converter(config) as converter, offloaded_half_way(conv, converter) as (client, _):
        converter.popen.send_signal(signal.SIGTERM)
        converter.wait_for("ending: 1 connections are open")
        take(client, 10 << 20)
        # The drain is over, and with the process the kernel's part ends.
        converter.ends(1)
        assert hears_a_reset(client)


LISTEN = LISTENERS.partition("\n[[")[0]


@pytest.mark.usefixtures("conv")
@pytest.mark.parametrize(
    ("config", "parts"),
    [
        (LISTEN, ("listen[0].offload = true", "offload.devices")),
        (SETTINGS + LISTEN.replace("mptcp = false", "mptcp = true"), ("listen[0].mptcp = true", "false")),
        (SETTINGS + "[upstream]\nmptcp = true\n" + LISTEN, ("upstream.mptcp = true", "false")),
        (SETTINGS + '[gateway]\naddress = "192.0.2.9:5124"\n' + LISTEN, ("gateway.mptcp = true", "false")),
        ('[offload]\nafter = "5"\n', ("offload.after", "with its unit")),
    ],
)
def test_what_cannot_be_left_is_refused_by_name(tmp_path: Path, config: str, parts: tuple[str, ...]) -> None:
    said = complaint(tmp_path, CLIENTS + config, "--check")
    assert all(part in said for part in parts), said


def test_a_device_that_is_not_there_is_named(conv: World) -> None:
    log = conv.refused(CONFIG.replace('"wired"', '"nosuch"'), 71)
    assert "offload" in log
    assert "nosuch" in log.splitlines()[-1]
