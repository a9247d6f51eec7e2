"""What tests of a home's IPv6 through the gateway share: the network, and a device's download by both links.

The network is that of experiments/home/network.py, and these:

    gateway 2001:db8:a::2 --- 2001:db8:a::1 internet 2001:db8:5::1 --- 2001:db8:5::2 server
    router 2001:db8:d::2 ==dsl== 2001:db8:d::1 internet
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.home.network import Network, standing_network
from experiments.home.router import Router
from experiments.testbed.node import Node
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tests.netns.connections import TCP
from tests.netns.world import connected, listener_at, serving
from tributary.settings.files import load

LINKS = Topology.of(load(PROFILES / "home.toml", Profile)).links[:2]
LINK = LINKS[0].name
"""The one of them that has IPv6."""
GATEWAY, SERVER = "2001:db8:a::2", "2001:db8:5::2"
PROBE = 'interval = "1s"\ntimeout = "1s"\nfailures = 2\n'
SIZE = 12_000_000
"""Bytes; each link alone would take longer than both."""
_RATES = ("40mbit", "20mbit")


@contextmanager
def network_with_ipv6(name: str, directory: Path) -> Iterator[Network]:
    with standing_network(name, directory, LINKS, shaped=False) as network:
        network.internet.sysctl(net__ipv6__conf__all__forwarding=1)
        for node, interface, side, net in (
            (network.gateway, "eth0", "gateway", "2001:db8:a::"),
            (network.server, "eth0", "server", "2001:db8:5::"),
            (network.router, LINK, LINK, "2001:db8:d::"),
        ):
            network.internet.ip("address", "add", f"{net}1/64", "dev", side)
            node.ip("address", "add", f"{net}2/64", "dev", interface)
            node.ip("-6", "route", "add", "default", "via", f"{net}1", "dev", interface, "metric", "1024")
        for link, rate in zip(LINKS, _RATES, strict=True):
            shape = f"tc qdisc add dev {link.name} root tbf rate {rate} burst 32kb latency 50ms"
            network.internet.run(*shape.split())
        yield network


def addresses(device: Node, *, deprecated: bool = False) -> list[str]:
    """The device's global addresses that it may use for what it begins, or those that it may not."""
    (shown,) = json.loads(device.ip("-j", "-6", "address", "show", "dev", "eth0"))
    found = [each for each in shown["addr_info"] if each["scope"] == "global"]
    return [each["local"] for each in found if each.get("deprecated", False) == deprecated]


@dataclass(frozen=True)
class Download:
    """The device's address, its bytes, those who asked the server, and the bytes that came by each link."""

    source: str
    size: int
    came: list[str]
    by_link: list[int]

    @property
    def is_bonded(self) -> bool:
        """Whether both links carried it, and all of it."""
        return min(self.by_link) > SIZE / 10 and sum(self.by_link) > SIZE


def download(network: Network, router: Router, port: int) -> Download:
    """Of SIZE bytes, by the device, from ``port`` of the server."""
    before, got = _received(router), 0
    with (
        _sending(network.server, port) as came,
        connected(network.device, SERVER, port, seconds=10, protocol=TCP) as client,
    ):
        source = client.getsockname()[0]
        while data := client.recv(1 << 20):
            got += len(data)
    by_link = [after - first for first, after in zip(before, _received(router), strict=True)]
    return Download(source, got, [host for host, _ in came], by_link)


def _received(router: Router) -> list[int]:
    """Bytes that came by each link."""
    shown = json.loads(router.node.ip("-j", "-s", "link"))
    counted = {each["ifname"]: int(each["stats64"]["rx"]["bytes"]) for each in shown}
    return [counted[link.name] for link in router.links]


def _sending(server: Node, port: int) -> AbstractContextManager[list[tuple[str, int]]]:
    """A server of SIZE bytes; who came."""
    return serving(listener_at(server, port, SERVER, TCP), lambda client: client.sendall(bytes(SIZE)))
