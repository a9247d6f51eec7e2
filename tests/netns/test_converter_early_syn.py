"""Early SYN forwarding: the converter's own SYN leaves when the client's comes in, and only when it should."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from experiments.testbed.node import Node
from tests.netns import forging
from tests.netns.connections import MPTCP, again_and_again, passes, read_all, reset, seconds_to_reset
from tests.netns.converter_clients import PROTOCOLS
from tests.netns.converter_nodes import at_home
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import echo
from tests.netns.converter_world import (
    ALL,
    CLIENT,
    CLIENT6,
    GATEWAY,
    LAN,
    LAN6,
    PORTS,
    SERVER6,
    SERVER_PRIVATE,
    STRANGER,
    World,
)
from tests.netns.test_converter_hand_over import hand_over, upgradable
from tests.netns.test_converter_transparent import return_path
from tests.netns.world import connected, eventually, socket_at
from tributary.settings.errors import Exit

PORT = 7070
EARLY = 'intercept = "tproxy"\nearly_syn = true\n'
CONFIG = ALL.replace(f":{PORTS['tproxy']}", f":{PORT}").replace('intercept = "tproxy"\n', EARLY)
KEEPING = CONFIG.replace(EARLY, EARLY + "keep_client_address = true\n")
ONE_SECOND = '[early_syn]\ntimeout = "1s"\n'
JOIN = [(30, bytes.fromhex("1001 01020304 05060708"))]  # RFC 8684 section 3.2
HOSTS = pytest.mark.parametrize(("source", "host"), [(CLIENT, SERVER), (CLIENT6, SERVER6)], ids=["ipv4", "ipv6"])


@pytest.fixture(scope="module", autouse=True)
def intercepting(conv_built: World) -> Iterator[None]:
    """What the client sends to PORT is for the listener at PORT; half-open connections are not ended by the client."""
    with (
        tproxied(conv_built, conv_built.gateway, '{ "wired", "wireless" }'),
        conv_built.filtered(conv_built.client, f"tcp dport {PORT} tcp flags rst drop", "output"),
    ):
        yield


def tproxied(conv: World, node: Node, interfaces: str) -> AbstractContextManager[str]:
    """What comes to ``node`` by these interfaces, for PORT, is for the listener at PORT."""
    rule = f"iifname {interfaces} tcp dport {PORT} tproxy to :{PORT} meta mark set 1 accept"
    return conv.filtered(node, rule, "prerouting", priority="mangle")


@contextmanager
def router(conv: World, fast_open: bool) -> Iterator[Converter]:
    """A converter in the client's namespace that carries lan's connections to PORT to the gateway."""
    listen = f'kind = "transparent"\naddress = "[::]:{PORT}"\n{EARLY}'
    keys = (f"fast_open = {str(fast_open).lower()}", 'retry = "500ms"')
    config = ONE_SECOND + at_home(listen, f"{GATEWAY}:{PORTS['convert']}", *keys)
    with tproxied(conv, conv.client, "home"), conv.converter(config, node=conv.client) as converter:
        yield converter


def syn(source: str, host: str, port: int = 40000, options: list[tuple[int, bytes]] | None = None) -> Packet:
    network = IPv6 if ":" in host else IP
    return network(src=source, dst=host) / TCP(sport=port, dport=PORT, flags="S", seq=1, options=options or [])


def send(conv: World, *packets: Packet, node: Node | None = None) -> None:
    """As they are, from the client, or from ``node``."""
    forging.send(node or conv.client, map(bytes, packets))


def seen(converter: Converter) -> dict[str, int]:
    """SYNs by what was done about them."""
    return dict(converter.by_outcome("early_syns"))


def waiting(converter: Converter) -> int:
    return int(converter.metrics()["tributary_converter_early_waiting"])


def given_up(converter: Converter) -> int:
    return int(converter.metrics()["tributary_converter_early_abandoned_total"])


def left(conv: World) -> list[tuple[str, int]]:
    """Where the gateway's SYNs since the last call went."""
    return [(each.target, each.port) for each in conv.syns_to_servers()]


def carries(connection: socket.socket) -> None:
    """Echoes, to its end."""
    with connection as client:
        assert passes(client, client, bytes(range(256)) * 1024)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client)[0] == b""


@HOSTS
def test_the_syn_goes_on_before_the_client_s_handshake_ends(conv: World, source: str, host: str) -> None:
    reset: list[bool] = []

    def wait(one: socket.socket) -> None:
        try:
            one.recv(1)
        except ConnectionResetError:
            reset.append(True)

    with conv.converter(ONE_SECOND + CONFIG) as converter, conv.serving(wait, PORT) as service:
        send(conv, syn(source, host))
        eventually(lambda: service.peers)
        assert left(conv) == [(host, PORT)]
        assert seen(converter) == {"started": 1}
        # The client never ends its handshake: the server is let go.
        eventually(lambda: given_up(converter) == 1)
        eventually(lambda: reset)
        assert waiting(converter) == 0


@HOSTS
@PROTOCOLS
def test_the_client_gets_the_connection_that_was_begun(conv: World, source: str, host: str, protocol: int) -> None:
    with conv.converter(ONE_SECOND + CONFIG) as converter, conv.serving(echo, PORT) as service:
        carries(conv.connect(host, PORT, protocol, source))
        assert left(conv) == [(host, PORT)]
        assert (len(service.peers), waiting(converter), given_up(converter)) == (1, 0, 0)
        eventually(lambda: converter.served() == ["ok"])


@pytest.mark.parametrize(
    ("packet", "outcome"),
    [
        (partial(syn, CLIENT, SERVER, options=JOIN), "join"),
        (partial(syn, STRANGER, SERVER), "client-not-allowed"),
        (partial(syn, CLIENT, SERVER_PRIVATE), "special-address"),
        (partial(syn, CLIENT, GATEWAY), "special-address"),
    ],
    ids=["join", "stranger", "private", "own"],
)
def test_a_syn_that_must_not_go_on_does_not(conv: World, packet: Callable[[], Packet], outcome: str) -> None:
    with conv.converter(ONE_SECOND + CONFIG) as converter:
        send(conv, packet())
        eventually(lambda: seen(converter) == {outcome: 1})
        assert left(conv) == []


def test_a_syn_that_is_sent_again_is_one(conv: World) -> None:
    with conv.converter(ONE_SECOND + CONFIG) as converter, conv.serving(echo, PORT) as service:
        send(conv, *[syn(CLIENT, SERVER)] * 3)
        eventually(lambda: seen(converter) == {"started": 1, "duplicate": 2})
        eventually(lambda: service.peers)
        assert left(conv) == [(SERVER, PORT)]


def test_a_server_that_refuses_is_no_false_success(conv: World) -> None:
    with conv.converter(ONE_SECOND + CONFIG) as converter:
        # The reset may come before connect(2) has returned.
        with suppress(ConnectionResetError), conv.connect(SERVER, PORT, MPTCP, CLIENT) as client:
            assert seconds_to_reset(client) < 1
        eventually(lambda: converter.served() == ["refused-by-server"])
        assert left(conv) == [(SERVER, PORT)]


def test_a_reload_turns_it_on_and_off(conv: World) -> None:
    late = CONFIG.replace("early_syn = true\n", "")
    with conv.converter(late) as converter, conv.serving(echo, PORT):
        send(conv, syn(CLIENT, SERVER, 43000))
        assert "reloaded:" in converter.reload(CONFIG)
        send(conv, syn(CLIENT, SERVER, 43001))
        eventually(lambda: seen(converter) == {"started": 1})
        assert left(conv) == [(SERVER, PORT)]
        assert "reloaded:" in converter.reload(late)
        send(conv, syn(CLIENT, SERVER, 43002))
        carries(conv.connect(SERVER, PORT, MPTCP, CLIENT))
        assert (seen(converter), left(conv)) == ({"started": 1}, [(SERVER, PORT)])


def test_a_flood_turns_it_off_and_its_end_on_again(conv: World) -> None:
    """Forged sources, more than the listener's queue has room for: the kernel sends SYN cookies (tcp(7))."""
    conv.gateway.sysctl(net__ipv4__tcp_syncookies=1)
    config = '[early_syn]\nconnections = 32\ntimeout = "1s"\n[limits]\nbacklog = 64\n' + CONFIG
    with conv.converter(config) as converter, conv.serving(echo, PORT):
        forged = [syn(f"10.99.{number // 250}.{1 + number % 250}", SERVER, 44000) for number in range(2000)]
        for start in range(0, len(forged), 200):
            send(conv, *forged[start : start + 200])
            assert waiting(converter) <= 32
            carries(conv.connect(SERVER, PORT, MPTCP, CLIENT))
        eventually(lambda: seen(converter).get("flood", 0) > 0)
        conv.syns()
        send(conv, syn(CLIENT, SERVER, 45000))
        carries(conv.connect(SERVER, PORT, MPTCP, CLIENT))
        # The real client's alone.
        assert left(conv) == [(SERVER, PORT)]
        before = seen(converter)["started"]

        def is_on_again() -> bool:
            send(conv, syn(CLIENT, SERVER, 46000))
            return seen(converter)["started"] > before

        eventually(is_on_again)


@pytest.mark.parametrize("fast_open", [False, True], ids=["handshake", "fast-open"])
@pytest.mark.parametrize(("source", "host"), [(LAN, SERVER), (LAN6, SERVER6)], ids=["ipv4", "ipv6"])
def test_a_device_gets_the_connection_that_was_begun_by_way_of_the_gateway(
    conv: World, source: str, host: str, fast_open: bool
) -> None:
    with conv.converter(ALL) as gateway, router(conv, fast_open) as home, conv.serving(echo, PORT) as service:
        carries(conv.connect(host, PORT, node=conv.lan))
        assert left(conv) == [(host, PORT)]
        assert [peer for peer, _ in service.peers] == ["2001:db8::1" if ":" in host else "203.0.113.1"]
        for converter in (home, gateway):
            eventually(lambda converter=converter: converter.served() == ["ok"])  # type: ignore[misc]
        assert home.lines()[0]["client"].rpartition(":")[0].strip("[]") == source
        assert given_up(home) == 0


def test_with_fast_open_the_syn_takes_the_request_along_and_the_gateway_connects_at_once(conv: World) -> None:
    with conv.converter(ALL), router(conv, fast_open=True) as home, conv.serving(echo, PORT) as service:
        # The device never ends its handshake.
        send(conv, syn(LAN, SERVER), node=conv.lan)
        eventually(lambda: service.peers)
        assert left(conv) == [(SERVER, PORT)]
        eventually(lambda: given_up(home) == 1)


def test_a_gateway_that_is_away_is_got_round_early_as_well(conv: World) -> None:
    with router(conv, fast_open=False) as home, conv.serving(lambda one: one.sendall(b"hello"), PORT) as service:
        for _ in range(2):
            with conv.connect(SERVER, PORT, node=conv.lan) as client:
                assert read_all(client)[0] == b"hello"
        assert home.log.count("is unavailable") == 1
        assert {peer for peer, _ in service.peers} == {CLIENT}


def answer_all(connection: socket.socket) -> None:
    # What was begun by a SYN may be let go.
    with suppress(OSError):
        echo(connection)


def test_a_client_whose_syn_another_process_has_seen_gets_its_own_address_once_that_lets_it_go(conv: World) -> None:
    """In the moment of a hand-over the one process may have begun a connection, and the other accept its client."""
    own = (CLIENT, 40001)
    with conv.converter(KEEPING) as converter, return_path(conv), conv.serving(answer_all, PORT) as service:
        begun = socket_at(conv.gateway)
        begun.setsockopt(socket.SOL_IP, socket.IP_TRANSPARENT, 1)
        begun.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        begun.bind(own)
        begun.connect((SERVER, PORT))
        with connected(conv.client, SERVER, PORT, own, 10, protocol=0) as client:
            eventually(lambda: converter.status()["listeners"][3]["accepted"] == 1)
            time.sleep(0.3)
            reset(begun)
            assert passes(client, client)
        assert service.peers == [own, own]
        assert "started" not in seen(converter)


def test_nobody_is_refused_while_early_connections_with_clients_addresses_are_handed_over(conv: World) -> None:

    def ask() -> bool:
        with conv.connect(SERVER, PORT) as client:
            return passes(client, client)

    with upgradable(conv, KEEPING) as converter, return_path(conv), conv.serving(answer_all, PORT) as service:
        with again_and_again(ask, 4) as heard:
            for _ in range(4):
                hand_over(converter)
        assert len(heard) > 20 and all(heard)
        # The last one of them begins to look for SYNs when the one before it has let them go.
        eventually(lambda: ask() and seen(converter).get("started"))
        assert {peer for peer, _ in service.peers} == {CLIENT}


def test_without_the_right_to_see_packets_it_says_so(conv: World) -> None:
    limit = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    assert "early_syn (needs CAP_NET_RAW)" in conv.refused(CONFIG, Exit.NO_PERMISSION, *limit)
