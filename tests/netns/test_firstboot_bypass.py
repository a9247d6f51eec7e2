"""Which way connections of a home router's devices take: rules, dnsmasq, converters and the links' daemon are real.

    device 192.168.77.9 --- [box] dsl 10.7.1.2 --- 10.7.1.1 [gateway] 203.0.113.1 --- 203.0.113.2 [server]
                                  lte 10.7.2.2 --- 10.7.2.1                           198.51.100.2
                                  sat 10.7.3.2 --- 10.7.3.1

The server is told who comes: the gateway for what is bonded, the box's address at a link for what leaves by that alone.
The best link is sat.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.converter_names import Names, looked_up
from tests.netns.converter_process import start
from tests.netns.home_world import BOX, LAN, Home, access_links, both_ends, dnsmasq, goes_on, heard, listening
from tests.netns.world import datagrams_at, eventually, needs

GATEWAY, SERVER, OTHER = "203.0.113.1", "203.0.113.2", "198.51.100.2"
LINKS = ("dsl", "lte", "sat")
DSL, LTE, SAT = (f"10.7.{number}.2" for number in (1, 2, 3))
MAC = "02:00:5e:10:00:01"
_NETWORK = f"""{LAN}
gateway:origins {GATEWAY}/24 -- server:eth0 {SERVER}/24 {OTHER}/32
server: ip route add default via {GATEWAY}
gateway: ip route add {OTHER} via {SERVER}
gateway: sysctl -qw net.ipv4.ip_forward=1
{access_links(LINKS, "gateway")}
"""

CARD = f"""\
gateway = "{GATEWAY}"
[lan]
interface = "end0"
address = "{BOX}/24"
# Addresses for documentation count as private.
private_names = ["example.com"]
[wan.dsl]
interface = "dsl"
[wan.lte]
interface = "lte"
[wan.sat]
interface = "sat"
priority = 50
"""
AT_GATEWAY = """\
[clients]
networks = ["10.7.0.0/16"]
[[listen]]
kind = "convert"
address = "[::]:5124"
"""

pytestmark = needs("cargo", "dnsmasq", "ip", "nft", "sysctl")


@dataclass
class Bypassed(Home):
    """With the gateway; ``internet`` is the server."""

    gateway: Node


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bypassed]:
    """The network, with both converters."""
    directory = tmp_path_factory.mktemp("bypass")
    with ExitStack() as made:
        nodes = made.enter_context(standing_nodes("fbb-", _NETWORK, directory))
        device, box, gateway, server = (nodes[name] for name in ("device", "box", "gateway", "server"))
        home = Bypassed(device, box, server, directory, gateway)
        home.write(CARD)
        for node, config in ((gateway, AT_GATEWAY), (box, (directory / "converter.toml").read_text())):
            folder = directory / f"of-{node.namespace}"
            folder.mkdir()
            converter = start(node, folder, config)
            made.callback(converter.kill)
            eventually((folder / "control").exists)
        made.enter_context(home.daemon())
        yield home


@contextmanager
def bypassing(home: Bypassed, *tables: str) -> Iterator[None]:
    """The box as its card says with these tables [[bypass]]."""
    _apply(home, *tables)
    with home.routing():
        yield


def _apply(home: Bypassed, *tables: str) -> None:
    home.write(CARD + "".join(f"[[bypass]]\n{table}\n" for table in tables))


def way(home: Bypassed, host: str = SERVER, port: int = 27015) -> str:
    """Whom the server sees, when a device connects; it speaks first. 'silence' if nobody comes."""
    with listening(home.internet, port):
        told = heard(home.device, host, port)
    return told.split(" ")[1] if " " in told else told


def way_by_udp(home: Bypassed, port: int, host: str = SERVER) -> str:
    """The same for one datagram; 'refused' if that is what the device is told."""
    with datagrams_at(home.internet, at=(host, port)) as service, datagrams_at(home.device, to=(host, port)) as client:
        client.send(b"hello")
        try:
            return str(service.recvfrom(10)[1][0])
        except TimeoutError:
            with pytest.raises(ConnectionRefusedError):
                client.send(b"hello")
            return "refused"


def test_what_nothing_is_said_of_goes_through_the_gateway_whatever_its_port(home: Bypassed) -> None:
    with bypassing(home):
        for port in (22, 443, 27015):
            assert way(home, port=port) == GATEWAY
        assert way(home, port=25) == SAT
        assert way_by_udp(home, 5060) == SAT


def test_the_gateway_itself_is_reached_without_its_converter(home: Bypassed) -> None:
    with bypassing(home), listening(home.gateway, 22):
        assert heard(home.device, GATEWAY, 22).split(" ")[1] == SAT


def test_ports_networks_and_devices_leave_by_the_link_that_is_named(home: Bypassed) -> None:
    with bypassing(
        home, 'ports = ["tcp/2220-2230", "udp/5060"]\nto = "lte"', 'prefixes = ["198.51.100.0/24"]\nto = "dsl"'
    ):
        assert way(home, port=2222) == LTE
        assert way(home, port=2231) == GATEWAY
        assert way(home, port=5060) == GATEWAY
        assert way_by_udp(home, 5060) == LTE
        assert way(home, OTHER) == DSL
        assert way(home, OTHER, 2222) == LTE
    home.device.ip("link", "set", "eth0", "address", MAC)
    home.device.ip("route", "replace", "default", "via", BOX)
    with bypassing(home, f'devices = ["{MAC}"]\nto = "lte"'):
        assert way(home) == LTE
    with bypassing(home, 'devices = ["02:00:5e:10:00:02"]\nto = "lte"'):
        assert way(home) == GATEWAY


def test_the_best_link_takes_what_it_is_named_for_and_what_is_for_a_link_that_is_down(home: Bypassed) -> None:
    with bypassing(home, 'ports = ["tcp/2222"]\nto = "best"', 'ports = ["tcp/2223"]\nto = "lte"'):
        assert way(home, port=2222) == SAT
        assert way(home, port=2223) == LTE
        with home.gateway.without("lte"):
            eventually(lambda: way(home, port=2223) == SAT)
        eventually(lambda: way(home, port=2223) == LTE)


def test_all_keys_of_a_table_have_to_match_and_the_first_table_counts(home: Bypassed) -> None:
    both = 'prefixes = ["198.51.100.0/24"]\nports = ["tcp/2222"]\nto = "gateway"'
    with bypassing(home, both, 'prefixes = ["198.51.100.0/24"]\nto = "lte"', 'ports = ["tcp/2222"]\nto = "sat"'):
        assert way(home, OTHER, 2222) == GATEWAY
        assert way(home, OTHER, 2223) == LTE
        assert way(home, SERVER, 2222) == SAT


def test_http3_is_refused_unless_it_is_by_passed(home: Bypassed) -> None:
    with bypassing(home, 'prefixes = ["198.51.100.0/24"]\nto = "lte"'):
        assert way_by_udp(home, 443) == "refused"
        assert way_by_udp(home, 443, OTHER) == LTE


@pytest.fixture(scope="module")
def names(home: Bypassed) -> Iterator[None]:
    """The name server that dnsmasq asks."""
    server = Names(home.box, "127.0.0.53")
    server.records = {"www.example.com": [OTHER], "example.com": [SERVER]}
    yield
    server.close()


@contextmanager
def naming(home: Bypassed) -> Iterator[None]:
    """Run dnsmasq as the card has it."""
    with dnsmasq(home.box, home.directory):
        eventually(lambda: told(home, "tributary.lan") == [BOX])
        yield


def told(home: Bypassed, name: str) -> list[str] | None:
    """The addresses that the box gives the device for ``name``."""
    return looked_up(home.device, name, BOX)


@pytest.mark.usefixtures("names")
def test_names_and_those_below_them_are_by_passed_once_they_are_looked_up(home: Bypassed) -> None:
    table = 'domains = ["example.com"]\nto = "lte"'
    with bypassing(home, table), naming(home):
        assert way(home, OTHER) == GATEWAY
        assert told(home, "www.example.com") == [OTHER]
        assert way(home, OTHER) == LTE
        assert way(home, SERVER) == GATEWAY
        assert told(home, "example.com") == [SERVER]
        assert way(home, SERVER) == LTE


@pytest.mark.usefixtures("names")
def test_a_name_counts_for_every_table_that_it_is_in(home: Bypassed) -> None:
    tables = 'domains = ["www.example.com"]\nports = ["tcp/443"]\nto = "sat"', 'domains = ["example.com"]\nto = "lte"'
    with bypassing(home, *tables), naming(home):
        assert told(home, "www.example.com") == [OTHER]
        assert way(home, OTHER, 443) == SAT
        assert way(home, OTHER, 80) == LTE


def test_an_address_in_use_stays_among_those_of_its_name(home: Bypassed) -> None:
    def seconds_left() -> int:
        told = json.loads(home.box.run("nft", "-j", "list", "set", "inet", "tributary-lan", "bypass1_names"))
        return int(told["nftables"][-1]["set"]["elem"][0]["elem"]["expires"])

    with bypassing(home, 'domains = ["example.com"]\nto = "lte"'):
        element = f"{{ {OTHER} expires 60s }}"
        home.box.run("nft", "add", "element", "inet", "tributary-lan", "bypass1_names", element)
        assert seconds_left() <= 60
        assert way(home, OTHER) == LTE
        assert seconds_left() > 3600


@pytest.mark.usefixtures("names")
def test_names_are_by_passed_again_after_rules_and_dnsmasq_are_new(home: Bypassed) -> None:
    table = 'domains = ["example.com"]\nto = "lte"'
    with bypassing(home, table):
        with naming(home):
            told(home, "www.example.com")
        _apply(home, table.replace("lte", "sat"))
        assert home.unit("ExecReload") == [0]
        with naming(home):
            assert way(home, OTHER) == GATEWAY
            assert told(home, "www.example.com") == [OTHER]
            assert way(home, OTHER) == SAT


def test_datagrams_keep_their_way_before_anybody_answers(home: Bypassed) -> None:
    there = (SERVER, 5060)
    with (
        bypassing(home),
        datagrams_at(home.internet, seconds=5, at=there) as service,
        datagrams_at(home.device, to=there) as client,
    ):
        client.send(b"hello")
        peer = service.recvfrom(10)[1]
        _apply(home, 'ports = ["udp/5060"]\nto = "lte"')
        home.unit("ExecReload")
        client.send(b"hello")
        assert service.recvfrom(10)[1] == peer
        assert peer[0] == SAT


def test_connections_keep_their_way_while_the_tables_change(home: Bypassed) -> None:
    with bypassing(home, 'ports = ["tcp/2222"]\nto = "lte"'):
        ends = partial(both_ends, home.device, home.internet, SERVER)
        with ends(2222) as past, ends(2223) as bonded:
            assert goes_on(*past) and goes_on(*bonded)
            _apply(home, 'ports = ["tcp/2223"]\nto = "sat"')
            assert home.unit("ExecReload") == [0]
            assert goes_on(*past) and goes_on(*bonded)
            assert past[1].getpeername()[0] == LTE
            assert bonded[1].getpeername()[0] == GATEWAY
        assert way(home, port=2222) == GATEWAY
        assert way(home, port=2223) == SAT
