"""The home router's world with a device in its LAN, whose rules mark packets as an image's do.

device eth0 192.168.77.9 --- 192.168.77.1 lan [router] dsl, lte --- provider
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.router_world import PORT, PROBED, SERVER_4, World, world
from tests.netns.world import connected

DEVICE, MAC = "192.168.77.9", "02:00:00:00:00:09"
NAME = "<script>alert(1)</script>"
_LAN = f"""
device:eth0 {DEVICE}/24 fd00:9::9/64 -- router:lan 192.168.77.1/24 fd00:9::1/64
device: ip link set eth0 address {MAC}
device: ip route add default via 192.168.77.1
router: sysctl -qw net.ipv4.ip_forward=1
router: nft add table ip translated
router: nft add chain ip translated leave {{ type nat hook postrouting priority srcnat; }}
router: nft add table inet marks
router: nft add chain inet marks outward {{ type filter hook prerouting priority mangle; }}
router: nft add rule inet marks outward iifname lan ct mark >= 0x8400 meta mark set ct mark
router: nft add rule ip translated leave ip saddr 192.168.77.0/24 oifname != lan masquerade
"""


@dataclass(frozen=True)
class Home(World):
    device: Node

    @property
    def text(self) -> str:
        """Settings that count devices, whose names are in a file of leases."""
        leases = self.directory / "leases"
        leases.write_text(f"1790000000 {MAC} {DEVICE} {NAME} *\n")
        return f'lan = "lan"\nbypass = true\nleases = "{leases}"\n' + PROBED

    def download(self, size: int) -> None:
        """Have the device take so many bytes from the provider's server."""
        with connected(self.device, SERVER_4, PORT, protocol=0) as connection, connection.makefile("rb") as stream:
            assert len(stream.read(size)) == size


@contextmanager
def home_at(directory: Path) -> Iterator[Home]:
    """The world, without a daemon."""
    with world(directory) as house, standing_nodes("home-", _LAN, directory, beside=house.nodes) as nodes:
        yield Home(house.nodes, directory, nodes["device"])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_at(tmp_path) as built:
        yield built
