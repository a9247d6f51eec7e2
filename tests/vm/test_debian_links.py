"""A home router's links and its access point on Debian 13's own kernel, by the files that its card comes to.

    [isp]    line.7 ====PPPoE==== vlan-dsl on end1 [router] br-lan: end0, wlan0 - - - wlan1 [device]
    [phone]  rndis0 =====USB===== usb0, by rndis_host [router]

The router is the machine itself, with pppd, hostapd, dnsmasq and nft(8) as in the image, and without systemd, which
would take minutes here; the others are network namespaces. The line is a veth with Debian's pppoe-server at its end,
and a web server and a gateway's converter behind that. The radios are mac80211_hwsim's. The phone is a USB gadget of
this kernel at a host controller of this kernel (dummy_hcd), which speaks RNDIS as Android does. No modem could be had:
what NetworkManager reads of its settings is looked at, and nothing dials.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from experiments.testbed import native
from image.firstboot.access_point import AccessPoint
from image.firstboot.settings import Wifi
from image.firstboot.wifi import configuration, joining
from tests.vm.machine import debian_folder, emulated, printed
from tests.vm.said import SHELL, addresses, section, write, write_card

pytestmark = [
    *emulated(900),
    # Software emulation in real time: a hypervisor may take the processors away for a minute.
    pytest.mark.flaky(reruns=2, reruns_delay=45),
]

# Not the cloud's kernel, which has no drivers of USB, radios and PPP.
PACKAGES = (
    *("linux-image-amd64", "kmod", "iproute2", "procps", "busybox", "iputils-ping", "iw", "pppoe", "wpasupplicant"),
    *("dnsmasq-base", "hostapd", "network-manager", "nftables", "ppp", "wireless-regdb"),
)
USER, PASSWORD = "0123#0001@provider.example", r'a "quoted\ word'
AT_THE_PROVIDER = rf'''"{USER}" * "a \"quoted\\ word" *'''
SECRET = {"country": "DE", "ssid": "At home", "passphrase": "one long passphrase"}
CARD = f"""\
role = "router"
gateway = "203.0.113.5"
[wan.dsl]
interface = "end1"
[wan.dsl.pppoe]
user = '{USER}'
password = '{PASSWORD}'
vlan = 7
[wan.phone]
driver = "rndis_host"
[wan.lte.modem]
apn = "internet.provider.example"
pin = "0123"
password = ' a \\ word'
[lan]
interface = "end0"
address = "192.168.77.1/24"
[access_point]
country = "{SECRET["country"]}"
ssid = "{SECRET["ssid"]}"
passphrase = "{SECRET["passphrase"]}"
interface = "wlan0"
"""
WIDE = {**SECRET, "ssid": "Wide", "channel": 36, "width": 80, "wpa3": True}
LEASE = """\
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address replace "$ip/$mask" dev "$interface"
ip route replace default via "$router"
"""
BY_SAE = """\
ctrl_interface=DIR=/run/wpa_supplicant
country=DE
sae_pwe=2
network={
    ssid="Wide"
    key_mgmt=SAE
    ieee80211w=2
    psk="one long passphrase"
}
"""
GATEWAY = """\
[clients]
networks = ["100.64.0.0/10"]
[targets]
allow = ["203.0.113.80/32"]
[control]
socket = "/tmp/gateway.sock"
[[listen]]
kind = "convert"
address = "203.0.113.5:5124"
"""
SYNS = """\
table inet seen {
    chain of_devices {
        type filter hook input priority filter
        tcp dport 80 tcp flags & (syn | ack) == syn tcp option maxseg size 1452 counter comment "fits"
        tcp dport 80 tcp flags & (syn | ack) == syn tcp option maxseg size > 1452 counter comment "too long"
    }
}
"""
FILES = {
    "gateway.toml": GATEWAY,
    "syns.nft": SYNS,
    "etc/ppp/isp": "require-chap\nname isp\nms-dns 198.51.100.53\nnoipv6\nlcp-echo-interval 5\n",
    "etc/ppp/chap-secrets": f"{AT_THE_PROVIDER}\n",
    "lease": LEASE,
    "joins.conf": joining(Wifi.model_validate(SECRET)),
    "joins-wide.conf": BY_SAE,
    "wide.conf": configuration(AccessPoint.model_validate(WIDE), "wlan2", None),
}

SCRIPT = r"""
took() { said "$1" cut -d ' ' -f 1 /proc/uptime; }
isp="ip netns exec isp" device="ip netns exec device" phone="ip netns exec phone"
took began
modprobe mac80211_hwsim radios=3
modprobe -a dummy_hcd libcomposite rndis_host pppoe
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts # for pppoe-server, whose pppd has a terminal
ip link set lo up

# The line: what systemd-networkd makes of the card, and the command of the unit.
ip netns add isp
ip link add end1 type veth peer name line netns isp
ip link set end1 up
ip link add link end1 name vlan-dsl type vlan id 7
ip link set vlan-dsl up
ip -n isp link set lo up
ip -n isp link set line up
ip -n isp link add link line name line.7 type vlan id 7
ip -n isp link set line.7 up
dial_in() { $isp pppoe-server -I line.7 -L 100.64.0.1 -R 100.64.0.10 -C isp -O /etc/ppp/isp; }
dial_in
pppd call tributary.dsl nodetach >/tmp/pppd.log 2>&1 &
until_true 'ip route show default | grep ppp-dsl' # which pppd makes last
took dialled
said line ip -json -details link show ppp-dsl
said address ip -json -4 address show ppp-dsl
said routes ip -json route show default
said servers cat /etc/ppp/resolv.conf
said ping ping -c 1 -W 5 100.64.0.1

# The phone: RNDIS in a gadget of the class that Android has.
mount -t configfs none /sys/kernel/config
gadget=/sys/kernel/config/usb_gadget/phone
mkdir -p $gadget/strings/0x409 $gadget/configs/c.1 $gadget/functions/rndis.0
echo 0x18d1 >$gadget/idVendor
echo 0x4ee3 >$gadget/idProduct
for each in class=e0 subclass=01 protocol=03 host_addr=02:00:5e:10:00:02 dev_addr=02:00:5e:10:00:01; do
    echo "${each#*=}" >"$gadget/functions/rndis.0/${each%%=*}"
done
ln -s $gadget/functions/rndis.0 $gadget/configs/c.1/
echo dummy_udc.0 >$gadget/UDC
by_address() { ip -brief link | awk -v address="$1" '$3 == address { print $1 }'; }
until_true '[ -n "$(by_address 02:00:5e:10:00:02)" ]'
inside=$(by_address 02:00:5e:10:00:01) outside=$(by_address 02:00:5e:10:00:02)
said driver readlink "/sys/class/net/$outside/device/driver"
ip netns add phone
ip link set "$inside" netns phone
ip -n phone address add 192.168.42.129/24 dev "$inside"
ip -n phone link set "$inside" up
ip link set "$outside" up
$phone dnsmasq --conf-file=/dev/null --port=0 --interface="$inside" --dhcp-range=192.168.42.10,192.168.42.20 --pid-file=
busybox udhcpc -i "$outside" -n -q -t 20 -s /lease
said phone ip -json -4 address show "$outside"
took tethered

# The LAN: its bridge, as systemd-networkd makes it, the access point, the rules, addresses for devices; and a device.
ip link add br-lan type bridge
ip link add end0 type veth peer name cable
ip link set end0 master br-lan
for each in cable end0 br-lan; do ip link set $each up; done
ip address add 192.168.77.1/24 dev br-lan
nft --file /etc/tributary/lan.nft
sysctl -qw net.ipv4.ip_forward=1
dnsmasq --conf-file=/etc/dnsmasq.d/tributary-lan.conf --pid-file=
hostapd -B /etc/hostapd/wlan0.conf
until_true 'iw dev wlan0 info | grep channel' # it is of the type before it sends
said point iw dev wlan0 info
said ports ip -json link show master br-lan
ip netns add device
iw phy "$(cat /sys/class/net/wlan1/phy80211/name)" set netns name device
$device wpa_supplicant -B -i wlan1 -c /joins.conf
until_true '$device wpa_cli -i wlan1 status | grep COMPLETED'
said joined $device wpa_cli -i wlan1 status
$device busybox udhcpc -i wlan1 -n -q -t 20 -s /lease
said lease ip -json -n device -4 address show wlan1
said through $device ping -c 3 -W 5 100.64.0.1
took served

# TCP of the device by the line: past where no converter is, then by one at each end.
ip route delete default via 192.168.42.129 # the phone's
mkdir /tmp/web
head -c 2000000 /dev/urandom >/tmp/web/file
for address in 203.0.113.5 203.0.113.80; do ip -n isp address add $address dev lo; done
$isp nft --file /syns.nft
$isp busybox httpd -f -vv -p 203.0.113.80:80 -h /tmp/web 2>>/tmp/web.log &
fetch() { $device busybox wget -q -T 30 -O - http://203.0.113.80/file | sha256sum; }
said file sha256sum /tmp/web/file
said past fetch
said past_client cat /tmp/web.log
said syns $isp nft -j list table inet seen
ip rule add priority 8300 fwmark 0x1 lookup 8300 # as tributary-lan.service
ip route add local default dev lo table 8300
mkdir /run/tributary-converter
$isp tributary-converter --config /gateway.toml >/tmp/gateway.log 2>&1 &
tributary-converter --config /etc/tributary/converter.toml >/tmp/converter.log 2>&1 &
until_true 'grep ready /tmp/gateway.log && grep ready /tmp/converter.log'
: >/tmp/web.log
said converted fetch
said converted_client cat /tmp/web.log
said sessions $isp nstat --ignore --noupdate MPTcpExtMPCapableACKRX
took fetched

# Another access point, by WPA3.
hostapd -B /wide.conf
until_true 'iw dev wlan2 info | grep channel'
$device wpa_cli -i wlan1 terminate
until_true '! $device wpa_cli -i wlan1 ping'
$device wpa_supplicant -B -i wlan1 -c /joins-wide.conf
until_true '$device wpa_cli -i wlan1 status | grep COMPLETED'
said wide iw dev wlan2 info
said wide_joined $device wpa_cli -i wlan1 status
took joined_by_wpa3

# The line ends, and comes back.
ip netns pids isp | xargs kill
until_true '! ip link show ppp-dsl'
dial_in
until_true 'ip route show default | grep ppp-dsl'
took dialled_again
said again ip -json -4 address show ppp-dsl
said log cat /tmp/pppd.log

# The modem's settings, read and written by NetworkManager's own.
said connection nmcli --offline connection modify connection.autoconnect-priority 1 \
    </etc/NetworkManager/system-connections/tributary-lte.nmconnection
said configuration NetworkManager --print-config
took ended
"""


def made(work: Path) -> Path:
    """With the files of the card, those of the others, and the converter."""
    root = debian_folder(work, PACKAGES)
    write_card(root, CARD, wired=("end0", "end1"), wireless=("wlan0", "wlan1", "wlan2"))
    for name, text in FILES.items():
        write(root / name, text, 0o755 if name == "lease" else 0o600)
    shutil.copy(native.build().converter, root / "usr/bin")
    return root


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory, made, SHELL + SCRIPT, seconds=400)


def test_nothing_that_was_waited_for_stayed_away(console: str) -> None:
    assert "never:" not in console


def test_a_line_by_pppoe_has_its_provider_s_address_and_a_default_route(console: str) -> None:
    (address,) = addresses(console, "address")
    assert (address["local"], address["address"]) == ("100.64.0.10", "100.64.0.1")
    (line,) = json.loads(section(console, "line"))
    assert line["mtu"] == 1492
    assert {"POINTOPOINT", "UP", "LOWER_UP"} <= set(line["flags"])
    (route,) = [each for each in json.loads(section(console, "routes")) if each["dev"] == "ppp-dsl"]
    assert "gateway" not in route
    assert route["metric"] >= 1024
    assert " 0% packet loss" in section(console, "ping")


def test_the_provider_s_name_servers_are_learnt(console: str) -> None:
    assert section(console, "servers") == "nameserver 198.51.100.53"


def test_a_line_that_ended_is_dialled_again(console: str) -> None:
    assert [address["address"] for address in addresses(console, "again")] == ["100.64.0.1"]


def test_a_phone_s_tethering_has_the_driver_that_the_card_names_and_gives_an_address(console: str) -> None:
    assert section(console, "driver").endswith("/rndis_host")
    (address,) = addresses(console, "phone")
    assert address["local"].startswith("192.168.42.")


def test_a_device_joins_the_access_point_and_gets_an_address_of_the_lan(console: str) -> None:
    assert "channel 6 " in section(console, "point")
    assert "ssid=At home\n" in section(console, "joined")
    assert "key_mgmt=WPA2-PSK\n" in section(console, "joined")
    (address,) = addresses(console, "lease")
    assert re.match(r"192\.168\.77\.(12[89]|1[3-9]\d|2\d\d)$", address["local"])


def test_the_cable_and_the_radio_are_in_one_network(console: str) -> None:
    assert {each["ifname"] for each in json.loads(section(console, "ports"))} == {"end0", "wlan0"}


def test_a_device_gets_out_by_the_line(console: str) -> None:
    assert re.search(r" [123] received", section(console, "through"))


def test_tcp_of_a_device_fits_the_line_and_arrives_whole_where_no_converter_is(console: str) -> None:
    assert section(console, "past").split()[0] == section(console, "file").split()[0]
    assert "100.64.0.10" in section(console, "past_client")
    counted = (each["rule"]["expr"] for each in json.loads(section(console, "syns"))["nftables"] if "rule" in each)
    packets = [part["counter"]["packets"] for rule in counted for part in rule if "counter" in part]
    assert packets == [1, 0]


def test_tcp_of_a_device_goes_by_multipath_tcp_over_the_line_where_converters_are(console: str) -> None:
    assert section(console, "converted").split()[0] == section(console, "file").split()[0]
    assert "203.0.113." in section(console, "converted_client")
    assert re.search(r"MPTcpExtMPCapableACKRX\s+[1-9]", section(console, "sessions"))


def test_wpa3_and_a_wide_channel_are_accepted(console: str) -> None:
    assert "channel 36 (5180 MHz), width: 80 MHz" in section(console, "wide")
    assert "key_mgmt=SAE\n" in section(console, "wide_joined")


def test_networkmanager_reads_the_modem_s_settings_and_is_told_to_leave_all_else_alone(console: str) -> None:
    connection = section(console, "connection")
    for line in ("type=gsm", "apn=internet.provider.example", "pin=0123", r"password=\sa \\ word", "route-metric=1056"):
        assert f"\n{line}\n" in connection
    assert "unmanaged-devices=*,except:type:gsm\n" in section(console, "configuration")


def test_pppd_logs_no_password(console: str) -> None:
    log = section(console, "log")
    assert "CHAP authentication succeeded" in log
    assert PASSWORD not in log
