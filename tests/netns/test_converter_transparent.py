import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from experiments.testbed.usage import counters
from tests.netns.connections import MPTCP, TCP, meanwhile, passes, read_all, take
from tests.netns.converter_clients import PROTOCOLS, TRANSPARENT
from tests.netns.converter_nodes import at_home
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import echo, greet
from tests.netns.converter_world import ALL, CLIENT, CLIENT6, GATEWAY, LAN, LAN6, PORTS, SERVER6, Service, World
from tests.netns.world import connected, eventually, sysctl

HOSTS = pytest.mark.parametrize("host", [SERVER, SERVER6])


def return_path(conv: World) -> AbstractContextManager[str]:
    """What servers send to the clients' own addresses is for a converter that borrowed them (tproxy in nft(8))."""
    rule = 'iifname "origins" meta l4proto tcp socket transparent 1 meta mark set 1 accept'
    return conv.filtered(conv.gateway, rule, "prerouting", priority="mangle")


@contextmanager
def both_links(conv: World, *addresses: str) -> Iterator[None]:
    """The client's kernel joins by its wireless link, with these addresses there."""
    for address in addresses:
        conv.client.ip("mptcp", "endpoint", "add", address, "dev", "wireless", "subflow")
    try:
        yield
    finally:
        conv.client.ip("mptcp", "endpoint", "flush")


KEEPING = ALL.replace('intercept = "tproxy"\n', 'intercept = "tproxy"\nkeep_client_address = true\n')


@PROTOCOLS
@HOSTS
def test_server_sees_the_client_s_own_address_and_port(conv: World, host: str, protocol: int) -> None:
    with conv.converter(KEEPING) as converter, return_path(conv), conv.serving(echo) as service:
        with conv.opened("tproxy", host, service.port, protocol) as client:
            data = bytes(range(256)) * 4096
            with meanwhile(client.sendall, data):
                assert take(client, len(data)) == data
            assert service.peers == [(client.getsockname()[0], client.getsockname()[1])]
        eventually(lambda: converter.served() == ["ok"])


@HOSTS
def test_one_port_of_a_client_leads_to_several_servers_and_to_the_next_one_at_once(conv: World, host: str) -> None:
    own = (CLIENT6 if ":" in host else CLIENT, 40000)
    conv.intercept("tproxy")
    with (
        conv.converter(KEEPING),
        return_path(conv),
        conv.serving(echo) as first,
        conv.serving(echo) as second,
        conv.serving(echo) as third,
    ):

        def opened(service: Service) -> socket.socket:
            return connected(conv.client, host, service.port, own, 10, protocol=TCP)

        with opened(first) as one, opened(second) as other:
            for client in (one, other):
                assert passes(client, client)
            # The converter's connections to the servers end first, and go to TIME-WAIT.
            for client in (one, other):
                client.shutdown(socket.SHUT_WR)
                assert read_all(client) == (b"", "closed")
            with opened(third) as client:
                assert passes(client, client)
        assert first.peers == second.peers == third.peers == [own]


@HOSTS
@pytest.mark.parametrize("how", TRANSPARENT)
def test_forbidden_targets_stay_forbidden_with_the_client_s_address(conv: World, how: str, host: str) -> None:
    with conv.converter(KEEPING + f'[targets]\ndeny = ["{SERVER}/32", "{SERVER6}/128"]\n'), return_path(conv):
        assert conv.hears(how, host, 8080) == "reset"
        assert [syn for syn in conv.syns() if syn.port == 8080] == []


@HOSTS
def test_second_subflow_joins_where_the_listener_has_the_port_that_was_dialled(conv: World, host: str) -> None:
    """A join looks for a listener at its own destination, before netfilter could bring it to another one."""
    port, size = 7777, 8 << 20
    config = ALL.replace(f":{PORTS['tproxy']}", f":{port}")
    rule = f'iifname {{ "wired", "wireless" }} tcp dport {port} tproxy to :{port} meta mark set 1 accept'
    source, address = (CLIENT6, "fd00:2::2") if ":" in host else (CLIENT, "10.0.2.2")
    conv.intercept("")
    with (
        conv.filtered(conv.gateway, rule, "prerouting", priority="mangle"),
        both_links(conv, address),
        conv.converter(config) as converter,
        conv.serving(lambda one: one.sendall(bytes(size)), port),
    ):
        with conv.connect(host, port, MPTCP, source) as client:
            assert len(read_all(client)[0]) == size
        (line,) = eventually(converter.lines)
        assert {path["client"] for path in line["paths"]} == {source, address}
        assert converter.metrics()["tributary_converter_mptcp_joins_total"] == 1


GATEWAYS = (f"{GATEWAY}:{PORTS['convert']}", f"[fd00:1::1]:{PORTS['convert']}")
ROUTER_RULES = {
    "tproxy": "type filter hook prerouting priority mangle; iifname home tcp dport 8000-8999 "
    "tproxy to :7003 meta mark set 1 accept;",
    "redirect": "type nat hook prerouting priority -100; iifname home tcp dport 8000-8999 redirect to :7003;",
}


@contextmanager
def router(
    conv: World, how: str = "tproxy", address: str = GATEWAYS[0], fallback: str = "direct", fast_open: bool = False
) -> Iterator[Converter]:
    """A converter in the client's namespace that lan's connections go to, with both links for what it sends."""
    keys = (f'fallback = "{fallback}"', 'timeout = "500ms"', 'retry = "500ms"', f"fast_open = {str(fast_open).lower()}")
    listen = f'kind = "transparent"\nname = "lan"\naddress = "[::]:7003"\nintercept = "{how}"\n'
    conv.intercept("")
    with (
        # A device of the LAN is seen at the servers by the addresses of the router's links.
        conv.ruled(f"table inet router {{ chain lan {{ {ROUTER_RULES[how]} }}; }}", conv.client),
        both_links(conv, "10.0.2.2", "fd00:2::2"),
        conv.converter(at_home(listen, address, *keys), node=conv.client) as converter,
    ):
        yield converter


def from_lan(world: World, host: str, port: int) -> socket.socket:
    """A connection of a device that speaks plain TCP to the server."""
    return world.connect(host, port, node=world.lan)


def is_greeted(conv: World, service: Service) -> bool:
    """Whether a device hears what the service says first."""
    with from_lan(conv, SERVER, service.port) as client:
        return take(client, 5) == b"hello"


@pytest.mark.parametrize("address", GATEWAYS, ids=["v4", "v6"])
@HOSTS
@pytest.mark.parametrize("how", TRANSPARENT)
def test_plain_connection_of_the_lan_uses_both_links_to_the_gateway(
    conv: World, how: str, host: str, address: str
) -> None:
    size = 16 << 20

    def push(connection: socket.socket) -> None:
        take(connection, 5)
        connection.sendall(bytes(size))

    with conv.converter(ALL) as gateway, router(conv, how, address) as home, conv.serving(push) as service:
        with from_lan(conv, host, service.port) as client:
            client.sendall(b"early")
            assert len(read_all(client)[0]) == size
        eventually(lambda: home.served() == gateway.served() == ["ok"])
        paths = gateway.lines()[0]["paths"]
        links = {"fd00:1::2", "fd00:2::2"} if "[" in address else {CLIENT, "10.0.2.2"}
        assert {path["client"] for path in paths} == links
        assert service.peers[0][0] in ("203.0.113.1", "2001:db8::1")
        assert home.lines()[0]["client"].rpartition(":")[0].strip("[]") == (LAN6 if ":" in host else LAN)


@pytest.mark.parametrize(
    ("client_wants", "gateway_takes"), [(False, 3), (True, 1), (True, 3)], ids=["unasked", "untaken", "taken"]
)
def test_first_bytes_of_a_device_come_once_whether_the_syn_took_them_or_not(
    conv: World, client_wants: bool, gateway_takes: int
) -> None:
    data = bytes(range(256)) * 40
    before = taken_with_the_syn(conv)
    with (
        sysctl(conv.gateway, net__ipv4__tcp_fastopen=gateway_takes),
        conv.converter(ALL),
        router(conv, fast_open=client_wants),
        conv.serving(echo) as service,
    ):
        for _ in range(5):
            with from_lan(conv, SERVER, service.port) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                assert read_all(client) == (data, "closed")
    assert taken_with_the_syn(conv) - before == (5 if (client_wants, gateway_takes) == (True, 3) else 0)


def taken_with_the_syn(world: World) -> int:
    """Connections to the gateway whose SYN had data that was taken."""
    return counters(world.gateway)["TcpExtTCPFastOpenPassive"]


@pytest.mark.parametrize("fallback", ["direct", "refuse"])
def test_gateway_that_is_away_is_got_round_or_not_and_found_again(conv: World, fallback: str) -> None:
    with router(conv, fallback=fallback) as home, conv.serving(greet) as service:

        def ask() -> str:
            with suppress(ConnectionError), from_lan(conv, SERVER, service.port) as client:
                # The greeting's end is the test's.
                client.settimeout(1)
                data, ended = client.recv(100), "closed"
                return data.decode() or ended
            return "reset"

        expected = {"direct": "hello", "refuse": "reset"}[fallback]
        assert ask() == expected
        assert "is unavailable" in home.log
        # Who is directly connected is seen by the address of the router's link.
        assert {peer[0] for peer in service.peers} == ({CLIENT} if fallback == "direct" else set())
        begin = time.monotonic()
        assert ask() == expected
        assert time.monotonic() - begin < 1.5
        with conv.converter(ALL) as gateway:
            eventually(lambda: ask() == "hello" and gateway.lines() and "is back" in home.log)
            assert service.peers[-1][0] == "203.0.113.1"
        # What one thread finds out all know.
        assert home.log.count("is unavailable") == 1


def test_silent_gateway_costs_its_timeout_once(conv: World) -> None:
    """A link that swallows everything, unlike a gateway that refuses."""
    with (
        conv.filtered(conv.gateway, f"tcp dport {PORTS['convert']} drop"),
        conv.converter(ALL),
        router(conv) as home,
        conv.serving(greet) as service,
    ):
        times = []
        for _ in range(2):
            begin = time.monotonic()
            assert is_greeted(conv, service)
            times.append(time.monotonic() - begin)
        assert 0.45 < times[0] < 1.2
        assert home.log.count("is unavailable") == 1


def test_what_the_gateway_says_of_the_server_is_passed_on_and_is_not_its_absence(conv: World) -> None:
    deny = f'[targets]\ndeny = ["{SERVER6}/128"]\n'
    with conv.converter(ALL + deny), router(conv) as home:
        for host in (SERVER, SERVER6):
            with suppress(ConnectionResetError), from_lan(conv, host, 8001) as client:
                assert read_all(client, 3) == (b"", "reset")
            home.wait_until_idle()
        eventually(lambda: home.served() == ["refused-by-server", "denied"])
        assert "is unavailable" not in home.log


COOKIES = ALL.replace('name = "convert"\n', 'name = "convert"\ncookies = true\n')


def test_cookie_is_fetched_once_and_shown_from_then_on(conv: World) -> None:
    with conv.converter(COOKIES) as gateway, router(conv) as home, conv.serving(greet) as service:
        for _ in range(6):
            assert is_greeted(conv, service)
        eventually(lambda: gateway.outcomes("convert").get("ok") == 6)
        # Each thread has a cookie of its own.
        assert 1 <= gateway.outcomes("convert")["cookie"] <= 2
        assert "is unavailable" not in home.log


def test_new_secret_of_the_gateway_costs_one_more_question(conv: World) -> None:
    with router(conv, fallback="refuse") as home, conv.serving(greet) as service:
        for _ in range(2):
            # A new process has a new secret.
            with conv.converter(COOKIES) as gateway:
                for _ in range(4):
                    assert is_greeted(conv, service)
                assert gateway.outcomes("convert")["cookie"] >= 1
        assert "is unavailable" not in home.log
