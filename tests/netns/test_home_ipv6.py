"""A device's IPv6 through a home router and its gateway, with all their programs: an address by router advertisement,
bonded TCP, everything else with the device's own address, and nobody who begins to talk to it.

The network is that of experiments/home/network.py, and these:

    gateway 2001:db8:a::2 --- 2001:db8:a::1 internet 2001:db8:5::1 --- 2001:db8:5::2 server
    router 2001:db8:d::2 ==dsl== 2001:db8:d::1 internet, which leads 2001:db8:1::/48 to the gateway
"""

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

import pytest

from experiments.home.gateway import gateway_at_work
from experiments.home.network import Network, standing_network
from experiments.home.router import Router, router_at_work
from experiments.testbed.node import Node
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tests.netns.home_world import dnsmasq, heard, listening
from tests.netns.squid_world import inside
from tests.netns.world import eventually, on
from tributary.settings.files import load

LINKS = Topology.of(load(PROFILES / "home.toml", Profile)).links[:2]
PREFIX, LAN = "2001:db8:1::/48", IPv6Network("2001:db8:1:1::/64")
GATEWAY, SERVER = "2001:db8:a::2", "2001:db8:5::2"
RATES = ("40mbit", "20mbit")
PROBE = 'interval = "1s"\ntimeout = "1s"\nfailures = 2\n'
SIZE = 12_000_000
"""Bytes; each link alone would take longer than both."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, ("wg", "dnsmasq"))), reason="missing: wireguard-tools or dnsmasq"),
]


@dataclass(frozen=True)
class Home:
    """All of it; ``address`` is what the device made of the router's advertisement."""

    network: Network
    router: Router
    address: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    directory = tmp_path_factory.mktemp("six")
    with standing_network(f"six{os.getpid()}", directory, LINKS, shaped=False) as network:
        _give_ipv6(network)
        for link, rate in zip(LINKS, RATES, strict=True):
            network.internet.run("tc", "qdisc", "add", "dev", link.name, "root", *_shape(rate))
        with (
            gateway_at_work(network, tunnels=True, lan_prefix=PREFIX) as gateway,
            router_at_work(network, gateway.enrol(), probe=PROBE) as router,
            dnsmasq(router.node, router.node.directory),
        ):
            address = eventually(lambda: next(iter(_addresses(network.device)), None), 20)
            yield Home(network, router, address)


def _shape(rate: str) -> tuple[str, ...]:
    return ("tbf", "rate", rate, "burst", "32kb", "latency", "50ms")


def _give_ipv6(network: Network) -> None:
    internet = network.internet
    internet.sysctl(net__ipv6__conf__all__forwarding=1)
    for node, interface, name, net in (
        (network.gateway, "eth0", "gateway", "2001:db8:a::"),
        (network.server, "eth0", "server", "2001:db8:5::"),
        (network.router, LINKS[0].name, LINKS[0].name, "2001:db8:d::"),
    ):
        internet.ip("address", "add", f"{net}1/64", "dev", name)
        node.ip("address", "add", f"{net}2/64", "dev", interface)
        node.ip("-6", "route", "add", "default", "via", f"{net}1", "dev", interface, "metric", "1024")
    internet.ip("-6", "route", "add", PREFIX, "via", GATEWAY)
    # Of devices' addresses nothing comes from a link.
    internet.run("nft", "add", "table", "ip6", "seen")
    internet.run("nft", "add", "chain", "ip6", "seen", "leaks", "{ type filter hook prerouting priority 0; }")
    internet.run(
        "nft", "add", "rule", "ip6", "seen", "leaks", f"iifname != {{ gateway, server }} ip6 saddr {PREFIX} counter"
    )


def _addresses(device: Node, *, deprecated: bool = False) -> list[str]:
    """The device's global addresses that it may use for what it begins, or those that it may not."""
    (shown,) = json.loads(device.ip("-j", "-6", "address", "show", "dev", "eth0"))
    found = [each for each in shown["addr_info"] if each["scope"] == "global"]
    return [each["local"] for each in found if each.get("deprecated", False) == deprecated]


def _received(router: Router) -> list[int]:
    """Bytes that came by each link."""
    shown = json.loads(router.node.ip("-j", "-s", "link"))
    counted = {each["ifname"]: int(each["stats64"]["rx"]["bytes"]) for each in shown}
    return [counted[link.name] for link in router.links]


def _leaked(home: Home) -> bool:
    return "packets 0 " not in home.network.internet.run("nft", "list", "chain", "ip6", "seen", "leaks")


def test_a_device_gets_an_address_of_the_gateway_s_prefix_and_packets_that_fit_the_tunnel(home: Home) -> None:
    assert IPv6Address(home.address) in LAN
    assert "via fe80::" in home.network.device.ip("-6", "route", "show", "default")
    assert home.network.device.run("cat", "/proc/sys/net/ipv6/conf/eth0/mtu") == "1420\n"


@contextmanager
def _sending(server: Node, port: int) -> Iterator[list[str]]:
    """A server of SIZE bytes; who came."""
    came: list[str] = []
    with inside(server):
        listener = socket.create_server((SERVER, port), family=socket.AF_INET6)

    def serve() -> None:
        with suppress(OSError):
            client, peer = listener.accept()
            came.append(peer[0])
            with client:
                client.sendall(bytes(SIZE))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield came
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_download_is_bonded_whatever_its_port(home: Home) -> None:
    before = _received(home.router)
    with _sending(home.network.server, 27015) as came:
        with inside(home.network.device):
            client = socket.create_connection((SERVER, 27015), 10)
        with client:
            assert client.getsockname()[0] == home.address
            got = 0
            while data := client.recv(1 << 20):
                got += len(data)
    assert (got, came) == (SIZE, [GATEWAY])
    by_link = [after - first for first, after in zip(before, _received(home.router), strict=True)]
    assert min(by_link) > SIZE / 10, by_link
    assert sum(by_link) > SIZE


def test_everything_else_keeps_the_device_s_own_address(home: Home) -> None:
    with inside(home.network.server):
        server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with inside(home.network.device):
        client = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with server, client:
        server.bind((SERVER, 4500))
        for each in (server, client):
            each.settimeout(5)
        # As large as the router's advertisement says.
        client.sendto(bytes(1420 - 48), (SERVER, 4500))
        data, peer = server.recvfrom(2000)
        server.sendto(data, peer)
        assert (peer[0], len(client.recv(2000))) == (home.address, 1372)
    assert " 1 received" in on(home.network.device.namespace, f"ping -n -c 1 -W 2 {SERVER}")
    # The router itself has an address of the same prefix, in its tunnel.
    assert " 1 received" in on(home.router.node.namespace, f"ping -n -c 1 -W 2 {SERVER}")


def test_nobody_on_the_internet_begins_to_talk_to_a_device_or_to_the_router(home: Home) -> None:
    with listening(home.network.device, 8080, version=6), listening(home.router.node, 8080, version=6):
        for target in (home.address, str(LAN[1]), str(LAN[2])):
            assert heard(home.network.server, target, 8080) == "silence"
    # Whether a device is there may be asked (RFC 4890 section 4.3.1).
    assert " 1 received" in on(home.network.server.namespace, f"ping -n -c 1 -W 2 {home.address}")


@contextmanager
def _routed_still(home: Home) -> Iterator[None]:
    """The device believes what it heard before."""
    (shown,) = json.loads(home.router.node.ip("-j", "-6", "address", "show", "dev", "lan", "scope", "link"))
    route = ("default", "via", shown["addr_info"][0]["local"], "dev", "eth0")
    home.network.device.ip("-6", "route", "add", *route)
    yield
    home.network.device.ip("-6", "route", "delete", *route)


def test_without_the_gateway_devices_leave_ipv6_at_once_and_take_it_up_again(home: Home) -> None:
    device, gateway = home.network.device, home.network.gateway
    with listening(home.network.server, 80, version=6):
        assert heard(device, SERVER, 80).startswith("server ")
        gateway.ip("link", "set", "eth0", "down")
        eventually(lambda: _addresses(device) == [], 20)
        assert _addresses(device, deprecated=True) == [home.address]
        # Nor is the router a way to the Internet any more; a device that has not heard of it yet is told.
        assert device.ip("-6", "route", "show", "default") == ""
        assert heard(device, SERVER, 80) == "unreachable"
        with _routed_still(home):
            begun = time.monotonic()
            assert heard(device, SERVER, 80) == "refused"
            assert time.monotonic() - begun < 1
        gateway.ip("link", "set", "eth0", "up")
        gateway.ip("address", "replace", f"{GATEWAY}/64", "dev", "eth0")
        for version, way in (("-4", "192.0.2.1"), ("-6", "2001:db8:a::1")):
            gateway.ip(version, "route", "replace", "default", "via", way)
        eventually(lambda: _addresses(device) == [home.address], 30)
        eventually(lambda: heard(device, SERVER, 80).startswith("server "))
    assert not _leaked(home)
