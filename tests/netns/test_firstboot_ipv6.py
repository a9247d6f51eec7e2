"""IPv6 in a home router's LAN: its rules, loaded as their units do it. The pair with all programs: test_home_ipv6.py.

    device ::9 --- end0 ::1 [box] tb0 2001:db8:f::1 --- 2001:db8:f::2 [gateway] 2001:db8:5::2
           2001:db8:1:1::/64      wlan0 2001:db8:e::1 --- 2001:db8:e::2 [internet] 2001:db8:5::2

The server's address is at the gateway, where the tunnel leads, and behind the link as well: whoever answers says by
which way it was asked.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from image.firstboot.lan import PORT
from tests.netns.connections import TCP
from tests.netns.home_world import BOX, Home, heard, listening, listens
from tests.netns.world import connected, datagrams_at, needs, on
from tests.unit.image.firstboot.cards import ENROLMENT, HOME, LINKS

PREFIX = "2001:db8:1:1::/64"
TUNNEL = "tb0"
DEVICE, BOX6, SERVER = "2001:db8:1:1::9", "2001:db8:1:1::1", "2001:db8:5::2"
_NETWORK = f"""
device:eth0 {DEVICE}/64 -- box:end0 {BOX6}/64 {BOX}/24
box:{TUNNEL} 2001:db8:f::1/64 -- gateway:inner 2001:db8:f::2/64
box:wlan0 2001:db8:e::1/64 -- internet:outer 2001:db8:e::2/64
device: ip route add default via {BOX6}
box: ip route add default via 2001:db8:e::2 metric 1024
gateway internet: ip address add {SERVER}/128 dev lo
gateway: ip route add {PREFIX} via 2001:db8:f::1
internet: ip route add {PREFIX} via 2001:db8:e::1
"""
BYPASS = """\
[[bypass]]
ports = ["tcp/2222", "udp/5060"]
to = "dsl"
[[bypass]]
domains = ["example.com"]
to = "dsl"
"""

pytestmark = needs("ip", "nft", "sysctl")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Node]]:
    directory = tmp_path_factory.mktemp("ipv6")
    with standing_nodes("fb6-", _NETWORK, directory) as made:
        yield made


@pytest.fixture
def home(nodes: dict[str, Node], tmp_path: Path) -> Iterator[Home]:
    """The box as its card says, while its gateway answers."""
    home = Home(nodes["device"], nodes["box"], nodes["internet"], tmp_path)
    home.write(f'{LINKS}{BYPASS}{ENROLMENT}prefix = "{PREFIX}"\n')
    with home.routing():
        _answers(home)
        yield home
        home.box.ip("-6", "route", "flush", "default", "dev", TUNNEL)


def _answers(home: Home) -> None:
    home.box.ip("-6", "route", "add", "default", "via", "2001:db8:f::2", "dev", TUNNEL, "metric", "1")


@contextmanager
def away(home: Home) -> Iterator[None]:
    """The gateway does not answer: what the daemon for the links then does about the box's default route."""
    home.box.ip("-6", "route", "flush", "default", "dev", TUNNEL)
    yield
    _answers(home)


def test_connections_of_devices_to_any_port_come_to_the_converter_s_listener(home: Home) -> None:
    with listening(home.box, PORT, transparent=True, version=6):
        for port in (22, 443, 27015):
            assert heard(home.device, SERVER, port) == f"box {DEVICE} {SERVER}"
    assert heard(home.device, BOX6, PORT) == "silence"


def test_what_is_not_bonded_goes_through_the_tunnel_with_the_device_s_own_address(
    home: Home, nodes: dict[str, Node]
) -> None:
    with listening(nodes["gateway"], 25, version=6):
        assert heard(home.device, SERVER, 25) == f"gateway {DEVICE} {SERVER}"
    with datagrams_at(nodes["gateway"], 6, at=(SERVER, 443)) as server, datagrams_at(home.device, 6) as client:
        client.sendto(b"hello", (SERVER, 443))
        data, peer = server.recvfrom(10)
        server.sendto(data, peer)
        assert (peer[0], client.recv(10)) == (DEVICE, b"hello")
    assert " 1 received" in on(home.device.namespace, f"ping -n -c 1 -W 1 {SERVER}")


def _is_told_at_once(home: Home, port: int) -> None:
    """By TCP and by UDP."""
    begun = time.monotonic()
    assert heard(home.device, SERVER, port) == "refused"
    with datagrams_at(home.device, 6, to=(SERVER, port)) as client:
        client.send(b"hello")
        with pytest.raises(PermissionError):  # administratively prohibited: icmpv6_err_convert of net/ipv6/icmp.c
            client.recv(10)
    assert time.monotonic() - begun < 0.9


def test_while_the_gateway_is_away_devices_are_told_so_at_once_and_nothing_leaves_by_a_link(home: Home) -> None:
    with (
        listening(home.internet, 443, version=6),
        listening(home.box, PORT, transparent=True, version=6),
        datagrams_at(home.internet, 6, at=(SERVER, 443)) as server,
        away(home),
    ):
        _is_told_at_once(home, 443)
        with pytest.raises(TimeoutError):
            server.recv(10)


def test_a_flow_that_has_begun_leaves_by_no_link_either(home: Home, nodes: dict[str, Node]) -> None:
    with (
        datagrams_at(nodes["gateway"], 6, at=(SERVER, 4500)) as server,
        datagrams_at(home.internet, 6, at=(SERVER, 4500)) as beside,
        datagrams_at(home.device, 6, to=(SERVER, 4500)) as client,
    ):
        client.send(b"hello")
        data, peer = server.recvfrom(10)
        server.sendto(data, peer)
        assert client.recv(10) == b"hello"
        with away(home):
            client.send(b"hello")
            with pytest.raises(PermissionError):
                client.recv(10)
        with pytest.raises(TimeoutError):
            beside.recv(10)
        client.send(b"again")
        assert server.recv(10) == b"again"


def test_a_connection_that_the_converter_has_stays_with_it(home: Home) -> None:
    with listens(home.box, PORT, transparent=True, version=6) as listener:
        client = connected(home.device, SERVER, 443, seconds=1, protocol=TCP)
        with client, listener.accept()[0] as taken, away(home):
            client.sendall(b"hello")
            taken.settimeout(1)
            assert taken.recv(10) == b"hello"


def test_what_is_by_passed_to_a_link_without_ipv6_is_told_at_once_to_go_by_ipv4(
    home: Home, nodes: dict[str, Node]
) -> None:
    with listening(home.box, PORT, transparent=True, version=6):
        assert heard(home.device, SERVER, 2222) == "refused"
        assert heard(home.device, SERVER, 2223) == f"box {DEVICE} {SERVER}"
        own = (SERVER, 5060)
        with datagrams_at(nodes["gateway"], 6, at=own) as server, datagrams_at(home.device, 6, to=own) as client:
            client.send(b"hello")
            with pytest.raises(PermissionError):
                client.recv(10)
            with pytest.raises(TimeoutError):
                server.recv(10)
        # As dnsmasq does it when a device asks for a name in example.com.
        home.box.run("nft", "add", "element", "inet", "tributary-lan", "bypass2_names6", f"{{ {SERVER} }}")
        _is_told_at_once(home, 443)


def test_what_is_by_passed_leaves_by_a_link_that_has_ipv6_with_the_link_s_own_address(home: Home) -> None:
    # As the daemon for the links does it for the first one, [wan.dsl].
    home.box.ip("-6", "route", "add", "default", "via", "2001:db8:e::2", "table", "8401")
    home.box.ip("-6", "rule", "add", "priority", "8393", "fwmark", "0x8401", "lookup", "8401")
    try:
        with listening(home.internet, 2222, version=6), listening(home.box, PORT, transparent=True, version=6):
            assert heard(home.device, SERVER, 2222) == f"internet 2001:db8:e::1 {SERVER}"
            assert heard(home.device, SERVER, 443) == f"box {DEVICE} {SERVER}"
    finally:
        home.box.ip("-6", "rule", "delete", "priority", "8393")
        home.box.ip("-6", "route", "flush", "table", "8401")


def test_with_addresses_of_links_tcp_is_for_the_converter_where_the_card_says_so(
    home: Home, nodes: dict[str, Node]
) -> None:
    with listening(nodes["gateway"], 443, version=6), listening(home.box, PORT, transparent=True, version=6):
        for more, listener in (("", "gateway"), ("bond_ipv6 = true\n", "box")):
            home.write(f'{HOME}ipv6 = "link"\n{more}')
            assert home.unit("ExecReload") == [0]
            assert heard(home.device, SERVER, 443) == f"{listener} {DEVICE} {SERVER}"
        # An address of nobody's, as after a provider has given another prefix.
        home.device.ip("address", "add", "2001:db8:99::9/64", "dev", "eth0", "nodad")
        assert heard(home.device, SERVER, 25, "2001:db8:99::9") == "silence"
        home.device.ip("address", "delete", "2001:db8:99::9/64", "dev", "eth0")


def test_nobody_on_the_internet_begins_to_talk_to_a_device(home: Home, nodes: dict[str, Node]) -> None:
    with listening(home.device, 8080, version=6), datagrams_at(home.device, 6, at=(DEVICE, 8080)) as device:
        for stranger in (nodes["gateway"], home.internet):
            assert heard(stranger, DEVICE, 8080) == "silence"
            with datagrams_at(stranger, 6) as client:
                client.sendto(b"hello", (DEVICE, 8080))
        with pytest.raises(TimeoutError):
            device.recv(10)
    # Whether it is there may be asked, by the tunnel.
    pings = (f"ping -n -c 1 -W 1 {DEVICE}", "1 received")
    assert pings[1] in on(nodes["gateway"].namespace, pings[0])
    assert pings[1] not in on(home.internet.namespace, pings[0], check=False)
