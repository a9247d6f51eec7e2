"""A home with `bond_ipv6`: devices have private IPv6 addresses, translated at links, and TCP is bonded all the same."""

import os
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from experiments.home.gateway import gateway_at_work
from experiments.home.router import router_at_work
from tests.netns.home_ipv6_world import GATEWAY, LINK, PROBE, SIZE, addresses, download, network_with_ipv6
from tests.netns.home_world import dnsmasq
from tests.netns.world import eventually, needs
from tributary.prefix_delegation import TOKEN

PREFIX = IPv6Network("fd12:3456:789a:1::/64")
LAN = f'ipv6 = "translated"\nipv6_prefix = "{PREFIX}"\nbond_ipv6 = true\n'
DELEGATED = IPv6Network("2001:db8:a100::/64")

pytestmark = [pytest.mark.slow, needs("wg", "dnsmasq")]


def test_a_device_gets_all_by_both_links_of_a_server_that_sees_the_gateway(tmp_path: Path) -> None:
    """By a port that nobody treats in a way of its own."""
    with network_with_ipv6(f"bond{os.getpid()}", tmp_path) as network:
        # As systemd-networkd does it when the provider has delegated a prefix.
        network.router.ip("address", "add", f"{DELEGATED[int(TOKEN)]}/64", "dev", LINK, "nodad")
        with (
            gateway_at_work(network, tunnels=True) as gateway,
            router_at_work(network, gateway.enrol(), probe=PROBE, lan=LAN) as router,
            dnsmasq(router.node, router.node.directory),
        ):
            eventually(lambda: addresses(network.device))
            found = download(network, router, 27015)
    assert IPv6Address(found.source) in PREFIX
    assert (found.size, found.came) == (SIZE, [GATEWAY])
    assert found.is_bonded, found
