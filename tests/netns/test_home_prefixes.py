"""IPv6 in a home by the prefixes that its links' providers delegate: several links with a prefix each, and translation.

systemd-networkd, dhcpd, dnsmasq, nft and the daemon are real.

    device --- end0 [box] dsl  2001:db8:e1::/64 --- dsl  [provider] 2001:db8:5::2, the server
                          lte0 2001:db8:e2::/64 --- lte0            delegates 2001:db8:a100::/56 and 2001:db8:a200::/56

The provider lets no packet in whose address is not of the link that it comes by, and counts those (BCP 38).
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from tests.netns.home_ipv6_world import addresses
from tests.netns.home_world import both_ends, dnsmasq, goes_on, heard, listening, run_unit
from tests.netns.world import ENVIRONMENT, eventually, needs
from tests.unit.image.firstboot.systems import files_of

NETWORKD = Path("/lib/systemd/systemd-networkd")
pytestmark = [
    needs("dhcpd", "dnsmasq", "nft"),
    pytest.mark.skipif(not NETWORKD.exists(), reason=f"missing: {NETWORKD}"),
]
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
        return [IPv6Address(each) for each in addresses(self.device)]

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


PRIVATE = IPv6Network("fd12:3456:789a:1::/64")
OWN = (1 << 64) - 1
"""The bits of an address that devices choose."""
BYPASS = '[[bypass]]\nports = ["tcp/2222"]\nto = "lte"\n'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, f'{CARD}ipv6 = "link"\n{BYPASS}') as built:
        yield built


@pytest.fixture
def translated(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, f'{CARD}ipv6 = "translated"\nipv6_prefix = "{PRIVATE}"\n{BYPASS}') as built:
        yield built


def seen(home: World, port: int = 80) -> IPv6Address:
    """Whom the server sees when the device connects."""
    with listening(home.provider, port, version=6):
        return IPv6Address(eventually(lambda: _told(home, port)))


def _told(home: World, port: int) -> str | None:
    words = heard(home.device, SERVER, port).split()
    return words[1] if len(words) == 3 else None


def test_devices_have_the_prefix_of_the_best_link_and_connections_stay_with_the_link_of_their_address(
    home: World,
) -> None:
    by_dsl = home.address_in(delegated("dsl"))
    assert seen(home) == IPv6Address(by_dsl)
    # What is by-passed leaves by the link that the card says, with an address of its own.
    assert seen(home, 2222) in link_network("lte0")
    home.cut("dsl")
    by_lte = home.address_in(delegated("lte0"))
    assert IPv6Address(by_dsl) not in home.addresses()
    with listening(home.provider, 80, version=6):
        # The card's rule follows what it tells its devices.
        eventually(lambda: heard(home.device, SERVER, 80, by_dsl) == "refused")
        begun = time.monotonic()
        assert heard(home.device, SERVER, 80, by_dsl) == "refused"
    assert time.monotonic() - begun < 0.9
    with both_ends(home.device, home.provider, SERVER, 80, by_lte) as ends:
        home.restore("dsl")
        # There may be another address of the same prefix, if the device had forgotten the first one.
        assert IPv6Address(home.address_in(delegated("dsl"), 40)) in delegated("dsl")
        assert goes_on(*ends)
    assert seen(home) in delegated("dsl")
    assert not home.strays()


def test_private_addresses_become_those_of_the_link_one_to_one_and_outlive_it(translated: World) -> None:
    home = translated
    own = home.address_in(PRIVATE)
    first = seen(home)
    # What removes the table is noticed with the next change of the network, or after half a minute.
    home.box.run("nft", "delete", "table", "inet", "tributary-translated")
    home.box.ip("route", "add", "192.0.2.0/24", "dev", "end0")
    assert seen(home) == first
    assert first in delegated("dsl")
    assert int(first) & OWN == int(IPv6Address(own)) & OWN
    assert seen(home, 2222) in delegated("lte0")
    # Whoever is asked for from outside is the same device.
    assert " 1 received" in home.provider.run("ping", "-n", "-c", "1", "-W", "2", str(first))
    with both_ends(home.device, home.provider, SERVER, 80, own) as (client, _):
        home.cut("dsl")
        eventually(lambda: "delegated" not in _table(home) and "dsl" not in _table(home))
        with pytest.raises((ConnectionResetError, PermissionError)):
            eventually(lambda: client.send(b"hello") and not client.recv(10), 5)
    second = seen(home)
    assert second in delegated("lte0")
    assert int(second) & OWN == int(IPv6Address(own)) & OWN
    assert home.addresses() == [IPv6Address(own)]
    with both_ends(home.device, home.provider, SERVER, 80, own) as ends:
        home.restore("dsl")
        eventually(lambda: "dsl" in _table(home), 40)
        assert goes_on(*ends)
    assert seen(home) == first
    assert not home.strays()


def _table(home: World) -> str:
    return home.box.run("nft", "list", "table", "inet", "tributary-translated")
