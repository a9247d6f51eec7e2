"""The world of a home whose providers delegate IPv6 prefixes: real systemd-networkd, dhcpd, dnsmasq, nft and daemon.

    device --- end0 [box] dsl  2001:db8:e1::/64 --- dsl  [provider] 2001:db8:5::2, the server
                          lte0 2001:db8:e2::/64 --- lte0            delegates 2001:db8:a100::/56 and 2001:db8:a200::/56

The provider lets no packet in whose address is not of the link that it comes by, and counts those (BCP 38).
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from tests.netns.home_world import dnsmasq, run_unit
from tests.netns.world import ENVIRONMENT, eventually, needs
from tests.unit.image.firstboot.systems import files_of

NETWORKD = Path("/lib/systemd/systemd-networkd")
NEEDED = [needs("dhcpd", "dnsmasq", "nft"), pytest.mark.skipif(not NETWORKD.exists(), reason=f"missing: {NETWORKD}")]
SERVER = "2001:db8:5::2"
LINKS = {"dsl": 1, "lte0": 2}
CARD = """\
gateway = "203.0.113.5"
[wan.dsl]
interface = "dsl"
priority = 1
[wan.lte]
interface = "lte*"
[lan]
interface = "end0"
address = "192.168.77.1/24"
"""

_BEGIN = """\
mount -o remount,ro /sys
for folder in /run/systemd /run/dbus; do mkdir -p $folder; mount -t tmpfs tmpfs $folder; done
mkdir /run/systemd/netif /run/systemd/network
chown systemd-network /run/systemd/netif
cp "$1"/*.network /run/systemd/network/
exec "$2"
"""
"""With a /run/systemd of its own, and, as in a container, without udev and without a message bus."""


def link_network(link: str) -> IPv6Network:
    """Where the link's own addresses are."""
    return IPv6Network(f"2001:db8:e{LINKS[link]}::/64")


def delegated(link: str) -> IPv6Network:
    """What the provider delegates by it."""
    return IPv6Network(f"2001:db8:a{LINKS[link]}00::/56")


@dataclass(frozen=True)
class World:
    device: Node
    box: Node
    provider: Node

    def cut(self, link: str) -> None:
        self.provider.ip("link", "set", link, "down")

    def restore(self, link: str) -> None:
        self.provider.ip("link", "set", link, "up")
        # The kernel has taken these away with the carrier.
        self.provider.ip("address", "replace", f"{link_network(link)[1]}/64", "dev", link)
        _lead(self, link)

    def addresses(self) -> list[IPv6Address]:
        """Those by which the device begins connections now, if the router says that it is a way to the Internet."""
        if not self.device.ip("-6", "route", "show", "default"):
            return []
        (shown,) = json.loads(self.device.ip("-j", "-6", "address", "show", "dev", "eth0"))
        found = [each for each in shown["addr_info"] if each["scope"] == "global" and not each.get("deprecated")]
        return [IPv6Address(each["local"]) for each in found]

    def address_in(self, network: IPv6Network, seconds: float = 20) -> str:
        """The device's only one, as soon as it is in ``network``."""

        def found() -> str | None:
            own = self.addresses()
            return str(own[0]) if len(own) == 1 and own[0] in network else None

        return str(eventually(found, seconds))

    def strays(self) -> bool:
        """Whether the provider has seen an address that is not of its link."""
        return "packets 0 " not in self.provider.run("nft", "list", "chain", "ip6", "seen", "strays")


@contextmanager
def world(directory: Path, card: str) -> Iterator[World]:
    """A box with this card at work; its daemon for links is ended as a user would end it."""
    with standing_nodes("pd6-", _network(), directory) as nodes:
        built = World(**nodes)
        files = _files(card, directory)
        for link in LINKS:
            _lead(built, link)
        with ExitStack() as stack:
            for process in (*_provider(built, directory), *_box(built, files, directory)):
                stack.enter_context(process)
            yield built
        assert "translated" not in built.box.run("nft", "list", "tables")
        left = [*built.box.ip("-6", "rule", "show").splitlines(), *built.box.ip("-6", "route").splitlines()]
        assert not [each for each in left if "proto 84" in each], left
        assert "inet6 2001:db8:a" not in built.box.ip("-6", "address", "show", "dev", "end0")


def _files(card: str, directory: Path) -> Path:
    """The folder with what the card writes, by the files' names."""
    folder = directory / "card"
    folder.mkdir(mode=0o755)
    for each in files_of(card):
        (folder / Path(each.path).name).write_text(each.text)
    for folder_of_networkd in (directory, folder):
        folder_of_networkd.chmod(0o755)
    return folder


def _network() -> str:
    nets = ", ".join(
        f'"{link}" . {net}' for link in LINKS for net in (link_network(link), delegated(link), "fe80::/10")
    )
    own = f"iifname . ip6 saddr != {{ {nets} }}"
    return f"""
device:eth0 -- box:end0
box:dsl -- provider:dsl {link_network("dsl")[1]}/64
box:lte0 -- provider:lte0 {link_network("lte0")[1]}/64
provider: sysctl -qw net.ipv6.conf.all.forwarding=1
provider: ip address add {SERVER}/128 dev lo
provider: nft add table ip6 seen
provider: nft add chain ip6 seen strays {{ type filter hook prerouting priority 0; }}
provider: nft add rule ip6 seen strays iifname {{ dsl, lte0 }} {own} ip6 saddr != :: counter drop
"""


def _lead(built: World, link: str) -> None:
    """What is delegated leads to the box, as a provider's router sees to it."""
    (shown,) = json.loads(built.box.ip("-j", "-6", "address", "show", "dev", link, "scope", "link"))
    way = ("via", shown["addr_info"][0]["local"], "dev", link)
    built.provider.ip("-6", "route", "replace", str(delegated(link)), *way)


def _provider(built: World, directory: Path) -> Iterator[Process]:
    """Who answers by DHCPv6 and who advertises himself as a router, at both links."""
    subnets = "".join(
        f"subnet6 {link_network(link)} {{ prefix6 {delegated(link)[0]} {delegated(link)[0]} /56; }}\n" for link in LINKS
    )
    leases, conf = directory / "leases", directory / "dhcpd.conf"
    leases.touch()
    conf.write_text(f"authoritative;\ndefault-lease-time 600;\n{subnets}")
    words = ("-6", "-f", "-d", "-cf", str(conf), "-lf", str(leases), "-pf", str(directory / "dhcpd.pid"), *LINKS)
    yield built.provider.start("dhcpd", ["dhcpd", *words])
    ranges = [f"--dhcp-range={link_network(link)[0]},ra-only,64,600" for link in LINKS]
    advertised = [*ranges, *(f"--ra-param={link},4" for link in LINKS), *(f"--interface={link}" for link in LINKS)]
    options = "--keep-in-foreground --pid-file= --conf-file=/dev/null --log-facility=- --port=0 --enable-ra"
    yield built.provider.start("routers", ["dnsmasq", *options.split(), "--bind-dynamic", *advertised])


def _box(built: World, files: Path, directory: Path) -> Iterator[Process]:
    """What the image's units start."""
    begin = ["sh", "-ec", _BEGIN, "networkd", str(files), str(NETWORKD)]
    yield built.box.start("networkd", begin)
    assert set(run_unit(built.box, "ExecStart", files)) == {0}
    yield dnsmasq(built.box, files)
    kept = ("env", f"STATE_DIRECTORY={directory}", f"PYTHONPATH={ENVIRONMENT['PYTHONPATH']}")
    where = (str(files / "router.toml"), "--state-directory", str(directory / "state"))
    yield built.box.start("router", [*kept, sys.executable, "-m", "router", "run", *where]).wait_until_ready()
