"""A device's IPv6 through a home router and its gateway, with all their programs: an address by router advertisement,
bonded TCP, everything else with the device's own address, and nobody who begins to talk to it.

The network is that of home_ipv6_world.py; the internet leads 2001:db8:1::/48 to the gateway.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

import pytest

from experiments.home.gateway import gateway_at_work
from experiments.home.network import Network
from experiments.home.router import Router, router_at_work
from experiments.testbed.node import Node
from tests.netns.home_ipv6_world import GATEWAY, PROBE, SERVER, SIZE, addresses, download, network_with_ipv6
from tests.netns.home_world import dnsmasq, heard, listening
from tests.netns.world import datagrams_at, eventually, needs, on

PREFIX, LAN = "2001:db8:1::/48", IPv6Network("2001:db8:1:1::/64")

pytestmark = [pytest.mark.slow, needs("wg", "dnsmasq")]


@dataclass(frozen=True)
class Home:
    """All of it; ``address`` is what the device made of the router's advertisement."""

    network: Network
    router: Router
    address: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    directory = tmp_path_factory.mktemp("six")
    with network_with_ipv6(f"six{os.getpid()}", directory) as network:
        _lead_prefix(network.internet)
        with (
            gateway_at_work(network, tunnels=True, lan_prefix=PREFIX) as gateway,
            router_at_work(network, gateway.enrol(), probe=PROBE) as router,
            dnsmasq(router.node, router.node.directory),
        ):
            address = eventually(lambda: next(iter(addresses(network.device)), None))
            yield Home(network, router, address)


def _lead_prefix(internet: Node) -> None:
    internet.ip("-6", "route", "add", PREFIX, "via", GATEWAY)
    # Of devices' addresses nothing comes from a link.
    leak = f"iifname != {{ gateway, server }} ip6 saddr {PREFIX} counter"
    internet.run("nft", f"table ip6 seen {{ chain leaks {{ type filter hook prerouting priority 0; {leak}; }}; }}")


def _leaked(home: Home) -> bool:
    return "packets 0 " not in home.network.internet.run("nft", "list", "chain", "ip6", "seen", "leaks")


def test_a_device_gets_an_address_of_the_gateway_s_prefix_and_packets_that_fit_the_tunnel(home: Home) -> None:
    assert IPv6Address(home.address) in LAN
    assert "via fe80::" in home.network.device.ip("-6", "route", "show", "default")
    assert home.network.device.run("cat", "/proc/sys/net/ipv6/conf/eth0/mtu") == "1420\n"


def test_a_download_is_bonded_whatever_its_port(home: Home) -> None:
    found = download(home.network, home.router, 27015)
    assert (found.source, found.size, found.came) == (home.address, SIZE, [GATEWAY])
    assert found.is_bonded, found


def test_everything_else_keeps_the_device_s_own_address(home: Home) -> None:
    there = (SERVER, 4500)
    with datagrams_at(home.network.server, 6, 5, at=there) as server, datagrams_at(home.network.device, 6, 5) as client:
        # As large as the router's advertisement says.
        client.sendto(bytes(1420 - 48), there)
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
        eventually(lambda: addresses(device) == [])
        assert addresses(device, deprecated=True) == [home.address]
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
        eventually(lambda: addresses(device) == [home.address], 30)
        eventually(lambda: heard(device, SERVER, 80).startswith("server "))
    assert not _leaked(home)
