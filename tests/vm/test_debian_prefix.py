"""A prefix that a provider delegates over PPPoE, on Debian 13's own kernel, by the files that a card comes to.

    [isp] line ====PPPoE==== end1 [router] ppp-dsl

The router is the machine itself, with pppd and systemd-networkd as in the image, and without systemd as its first
process. The line is a veth with Debian's pppoe-server at its end; Kea answers by DHCPv6 there, and dnsmasq says that it
is a router.
"""

import json
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from tests.vm.machine import debian_folder, emulated, printed
from tests.vm.said import SHELL, addresses, section, write, write_card
from tributary.prefix_delegation import prefix_of

pytestmark = emulated(900)

PACKAGES = (
    *("linux-image-amd64", "kmod", "iproute2", "procps", "iputils-ping", "systemd", "ppp", "pppoe"),
    *("dnsmasq-base", "kea-dhcp6-server"),
)
CARD = """\
role = "router"
gateway = "203.0.113.5"
[wan.dsl]
interface = "end1"
[wan.dsl.pppoe]
user = "user"
password = "password"
[wan.lte]
interface = "enx*"
[lan]
interface = "end0"
address = "192.168.77.1/24"
ipv6 = "link"
"""
LINK, DELEGATED = "2001:db8:e7::/64", IPv6Network("2001:db8:a000::/40")
KEA = {
    "Dhcp6": {
        "interfaces-config": {"interfaces": ["*"]},
        "lease-database": {"type": "memfile", "persist": False},
        "server-id": {"type": "EN", "enterprise-id": 32473, "identifier": "0123456789ab", "persist": False},
        "subnet6": [
            {
                "id": 1,
                "subnet": LINK,
                "interface": "ppp0",
                "pd-pools": [{"prefix": "2001:db8:a000::", "prefix-len": 40, "delegated-len": 56}],
            }
        ],
    }
}
FILES = {
    "kea.json": json.dumps(KEA),
    "etc/ppp/isp": "require-chap\nname isp\n+ipv6\nlcp-echo-interval 5\n",
    "etc/ppp/chap-secrets": '"user" * "password" *\n',
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/dhcp6-routers.conf": "port=0\nenable-ra\ninterface=ppp0\ndhcp-range=::,constructor:ppp0,ra-only,64,600\n",
}
SCRIPT = r"""
isp="ip netns exec isp"
modprobe pppoe
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts # for pppoe-server, whose pppd has a terminal
ip link set lo up
# As in a container: without udev, which nothing here would tell of interfaces, and without a message bus.
networkd() {
    mount -o remount,ro /sys
    mkdir -p /run/systemd/netif
    chown systemd-network:systemd-network /run/systemd/netif
    exec /usr/lib/systemd/systemd-networkd
}
export -f networkd

ip netns add isp
ip link add end1 type veth peer name line netns isp
ip -n isp link set lo up
ip -n isp link set line up
unshare --mount bash -c networkd >/tmp/networkd.log 2>&1 &
$isp sysctl -qw net.ipv6.conf.all.forwarding=1
# serve: whoever dials in is told of a router, and of a prefix that leads to it.
serve() {
    $isp pppoe-server -I line -L 100.64.0.1 -R 100.64.0.10 -C isp -O /etc/ppp/isp
    until_true 'ip -n isp -6 address show dev ppp0 | grep fe80'
    ip -n isp address add 2001:db8:e7::1/64 dev ppp0 nodad
    # Of an address with a peer, as pppd makes it, Kea takes the peer's for its own.
    ip -n isp address flush dev ppp0 scope link
    ip -n isp address add fe80::1/64 dev ppp0 nodad
    ip -n isp route add 2001:db8:a000::/40 dev ppp0
    mkdir -p /run/kea /run/lock/kea /var/lib/kea
    $isp kea-dhcp6 -c /kea.json >/tmp/kea.log 2>&1 &
    $isp dnsmasq --conf-file=/etc/dhcp6-routers.conf --pid-file=
}
pppd call tributary.dsl nodetach >/tmp/pppd.log 2>&1 &
serve
until_true 'ip -6 address show dev ppp-dsl | grep 8400::1'
until_true 'ip -6 route show default dev ppp-dsl | grep default'
said address ip -json address show dev ppp-dsl
said routes ip -json -6 route show default
said routes4 ip -json -4 route show default
said below ip -json address show dev end1
own=$(ip -6 -o address show dev ppp-dsl | grep -o '2001:db8:a[0-9a-f:]*8400::1')
said ping ping -n -c 3 -W 5 -I "$own" 2001:db8:e7::1

# The line ends, and comes back.
ip netns pids isp | xargs kill
until_true '! ip link show dev ppp-dsl'
serve
until_true 'ip -6 address show dev ppp-dsl | grep 8400::1'
said again ip -json address show dev ppp-dsl
for each in networkd pppd kea; do said $each cat /tmp/$each.log; done
"""


def made(work: Path) -> Path:
    root = debian_folder(work, PACKAGES)
    write_card(root, CARD, wired=("end0", "end1"))
    for name, text in FILES.items():
        write(root / name, text, 0o644)
    return root


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory, made, SHELL + SCRIPT, seconds=400)


def prefixes(console: str, name: str) -> list[IPv6Network]:
    """The /64s that the link shows."""
    found = [prefix_of(IPv6Address(each["local"])) for each in addresses(console, name) if each["family"] == "inet6"]
    return [each for each in found if each]


def test_nothing_that_was_waited_for_stayed_away(console: str) -> None:
    assert "never:" not in console


def test_the_link_shows_the_first_network_of_what_was_delegated(console: str) -> None:
    for name in ("address", "again"):
        (prefix,) = prefixes(console, name)
        assert prefix.subnet_of(DELEGATED)
        assert prefix.network_address == prefix.supernet(new_prefix=56).network_address


def test_packets_of_the_prefix_come_and_go_by_the_line(console: str) -> None:
    assert " 0% packet loss" in section(console, "ping")
    (route,) = [each for each in json.loads(section(console, "routes")) if each["dev"] == "ppp-dsl"]
    assert route["gateway"].startswith("fe80::")
    assert route["metric"] >= 1024


def test_what_pppd_gave_the_link_is_still_there(console: str) -> None:
    for name in ("address", "again"):
        assert "100.64.0.10" in {each["local"] for each in addresses(console, name)}
    assert [each["dev"] for each in json.loads(section(console, "routes4"))] == ["ppp-dsl"]
    assert list(addresses(console, "below")) == []
