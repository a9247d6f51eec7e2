"""A home with `bond_ipv6`: devices have private IPv6 addresses, translated at links, and TCP is bonded all the same."""

import os
from collections.abc import Iterator
from ipaddress import IPv6Address, IPv6Network

import pytest

from experiments.home.gateway import gateway_at_work
from experiments.home.router import router_at_work
from tests.netns.home_ipv6_world import (
    GATEWAY,
    LINK,
    PROBE,
    SIZE,
    Download,
    addresses,
    download,
    network_with_ipv6,
)
from tests.netns.home_world import dnsmasq
from tests.netns.world import eventually, needs
from tributary.prefix_delegation import TOKEN

PREFIX = IPv6Network("fd12:3456:789a:1::/64")
LAN = f'ipv6 = "translated"\nipv6_prefix = "{PREFIX}"\nbond_ipv6 = true\n'
DELEGATED = IPv6Network("2001:db8:a100::/64")

pytestmark = [pytest.mark.slow, needs("wg", "dnsmasq")]


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Download]:
    """By a port that nobody treats in a way of its own."""
    directory = tmp_path_factory.mktemp("bond6")
    with network_with_ipv6(f"bond{os.getpid()}", directory) as network:
        # As systemd-networkd does it when the provider has delegated a prefix.
        network.router.ip("address", "add", f"{DELEGATED[int(TOKEN)]}/64", "dev", LINK, "nodad")
        with (
            gateway_at_work(network, tunnels=True) as gateway,
            router_at_work(network, gateway.enrol(), probe=PROBE, lan=LAN) as router,
            dnsmasq(router.node, router.node.directory),
        ):
            eventually(lambda: addresses(network.device), 20)
            yield download(network, router, 27015)


def test_a_device_gets_all_of_a_server_that_sees_the_gateway(downloaded: Download) -> None:
    assert IPv6Address(downloaded.source) in PREFIX
    assert (downloaded.size, downloaded.came) == (SIZE, [GATEWAY])


def test_both_links_carry_it(downloaded: Download) -> None:
    assert downloaded.is_bonded, downloaded
