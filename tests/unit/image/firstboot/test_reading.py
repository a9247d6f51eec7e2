"""Files that are accepted, and files that are not: each with the lines that say why."""

import re
from pathlib import Path

import pytest

from image.firstboot import next_steps
from image.firstboot.plan import plan
from image.firstboot.reading import Wrong, read
from image.firstboot.settings import Card, Role
from tests.unit.image.firstboot.systems import SHA512, SHIPPED, YESCRYPT, facts, public_key
from tributary.settings.failure import Exit

CPE = """\
gateway = "203.0.113.5"
[wan.dsl]
interface = "wlan0"
[wan.lte]
interface = "enx*"
[lan]
interface = "end0"
address = "192.168.77.1/24"
"""
LINKS = CPE.partition("\n")[2]
ENROLMENT = """\
[[enrolment]]
gateway = "gateway.example.net"
public_key = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
addresses = "10.84.0.16/28"
inside = "10.84.0.1"
"""
BYPASS = '[[bypass]]\nto = "dsl"\n'
LOGIN = '[wan.dsl.pppoe]\nuser = "u"\npassword = "p"\n'
PPPOE = f'[wan.dsl]\ninterface = "end1"\n{LOGIN}'
MODEM = '[wan.lte.modem]\napn = "internet"\n'
ACCESS_POINT = '[access_point]\ncountry = "DE"\nssid = "net"\npassphrase = "12345678"\n'
FORWARD = """\
[[forward]]
ports = ["tcp/443"]
device = "192.168.77.20"
to_port = 8443
"""
WIFI = '[wifi]\ncountry = "DE"\nssid = "net"\n'


def lines(text: str | bytes, role: Role = Role.GATEWAY) -> tuple[str, ...]:
    """What is said of a file that is not accepted."""
    with pytest.raises(Wrong) as caught:
        read(text.encode() if isinstance(text, str) else text, role)
    assert caught.value.code == Exit.USAGE
    assert all(line.startswith("tributary.toml: ") and "\n" not in line for line in caught.value.lines)
    return caught.value.lines


WRONG = [
    ('rôle = "cpe"', "rôle", "not valid TOML"),
    ('role = "router"', "role = 'router'", "'gateway' or 'cpe'"),
    ("role = 1", "role = 1", "'gateway' or 'cpe'"),
    ('rolle = "cpe"', "rolle = 'cpe'", "one of the keys access_point, admin_networks, bypass"),
    ('hostname = "My box"', "hostname = 'My box'", "1 to 63 of a-z, 0-9 and -"),
    ('hostname = "-a"', "hostname = '-a'", "not at an end"),
    (f'hostname = "{"a" * 64}"', "hostname = 'aaa", "1 to 63"),
    ("hostname = true", "hostname = True", "1 to 63"),
    ('ssh_keys = "ssh-ed25519 AAAA"', "ssh_keys = 'ssh-ed25519 AAAA'", "a list of whole OpenSSH public keys"),
    ('ssh_keys = ["ssh-ed25519 AAAA"]', "ssh_keys[0] = 'ssh-ed25519 AAAA'", "whole OpenSSH public keys"),
    (f'ssh_keys = ["{public_key()[:-8]}"]', "ssh_keys[0] = 'ssh-ed25519 AAAAC3", "whole OpenSSH public keys"),
    ('password_hash = "secret"', "password_hash = '(not shown)'", "mkpasswd --method=yescrypt"),
    ("password_hash = 12345", "password_hash = '(not shown)'", "never a password"),
    ('password_hash = "$1$abc$def"', "password_hash = '(not shown)'", "$y$ (yescrypt) or $6$ (sha512)"),
    (f'password_hash = "{YESCRYPT[:-1]}"', "password_hash", "mkpasswd"),
    ('client_networks = ["0.0.0.0/0"]', "client_networks[0] = '0.0.0.0/0'", "'/8' or longer"),
    ('client_networks = ["::/6"]', "client_networks[0] = '::/6'", "never the Internet"),
    ('client_networks = ["10.0.0.1/8"]', "client_networks[0] = '10.0.0.1/8'", "without host bits"),
    ('client_networks = "10.0.0.0/8"', "client_networks = '10.0.0.0/8'", "a list of networks"),
    ('admin_networks = ["198.51.100.1/24"]', "admin_networks[0] = '198.51.100.1/24'", "networks without host bits"),
    ('public_name = "gateway.example:51840"', "public_name = 'gateway.example:51840'", "without a port"),
    ('gateway = "gateway.example"', "gateway = 'gateway.example'", "no name"),
    ('gateway = "203.0.113.5:0"', "gateway = '203.0.113.5:0'", "'203.0.113.5'"),
    ('gateway = "127.0.0.1"', "gateway = '127.0.0.1'", "an address, or an address and a port"),
    ('gateway = "fe80::1%eth0"', "gateway = 'fe80::1%eth0'", "an address"),
    (ENROLMENT.replace("AAEC", "AAE"), "enrolment[0].secret = '(not shown)'", "32 bytes in base64"),
    (ENROLMENT.replace("10.84.0.16/28", "10.84.0.0/24"), "enrolment[0].addresses = '10.84.0.0/24'", "of length 28"),
    ('leg = "ipsec"', "leg = 'ipsec'", "'wireguard' or 'plain'"),
    ('[probe]\ninterval = "0s"', "probe.interval = '0s'", "a time from '1s' to '3600s'"),
    ('[probe]\ntarget = "gateway.example:5124"', "probe.target = 'gateway.example:5124'", "no name, no loopback"),
    ("[probe]\nfailures = 0", "probe.failures = 0", "1 to 100"),
    ("[probe]\nretries = 2", "probe.retries = 2", "one of the keys captive, failures, interval, mptcp_target, target"),
    ('[tunnels]\nkeepalive = "1500ms"', "tunnels.keepalive = '1500ms'", "a time in whole seconds"),
    ('[tunnels]\nprefix = "9"', "tunnels.prefix = '9'", "a letter first"),
    (WIFI, "wifi.passphrase = '(missing)'", "8 to 63"),
    (WIFI + 'passphrase = "short"', "wifi.passphrase = '(not shown)'", "8 to 63"),
    (WIFI + 'pasphrase = "12345678"', "wifi.pasphrase = '(not shown)'", "one of the keys country"),
    (WIFI + "passphrase = 12345678", "wifi.passphrase = '(not shown)'", "8 to 63"),
    (WIFI + f'passphrase = "{"x" * 64}"', "wifi.passphrase = '(not shown)'", "64 of 0-9 and a-f"),
    (WIFI + 'passphrase = "größer als"', "wifi.passphrase = '(not shown)'", "ASCII"),
    (WIFI.replace("DE", "de") + 'passphrase = "12345678"', "wifi.country = 'de'", "two capital letters"),
    (WIFI.replace("net", "") + 'passphrase = "12345678"', "wifi.ssid = ''", "1 to 32 bytes"),
    (WIFI.replace("net", "ä" * 17) + 'passphrase = "12345678"', "wifi.ssid", "1 to 32 bytes"),
    (WIFI + 'passphrase = "12345678"\ninterface = "wl an0"', "wifi.interface = 'wl an0'", "a wireless interface"),
    ('[network."a/b"]\ndhcp = true', "network.a/b", "a network interface"),
    ("[network.eth0]\ndhcp = false", "network.eth0 = {'dhcp': False}", "either dhcp = true"),
    ('[network.eth0]\ndhcp = true\naddress = "192.0.2.1/24"', "network.eth0", "or an address"),
    ('[network.eth0]\ndhcp = "yes"', "network.eth0.dhcp = 'yes'", "true or false"),
    ('[network.eth0]\naddress = "192.0.2.1"', "network.eth0.address = '192.0.2.1'", "with its prefix length"),
    ('[network.eth0]\naddress = "192.0.2.0/24"', "network.eth0.address = '192.0.2.0/24'", "'192.168.1.5/24'"),
    ('[network.eth0]\naddress = "192.0.2.255/24"', "network.eth0.address", "'192.168.1.5/24'"),
    ('[network.eth0]\naddress = "192.0.2.2/24"\ngateway = "192.0.3.1"', "network.eth0", "inside a network"),
    ('[network.eth0]\naddress = "192.0.2.2/24"\ngateway = "fe80::1"', "network.eth0", "inside a network"),
    ('[network.eth0]\naddress = "192.0.2.2/24"\ngateway = ["192.0.2.1", "192.0.2.3"]', "network.eth0", "at most one"),
    ('[network.eth0]\ngateway = "192.0.2.1"', "network.eth0", "a gateway only with an address"),
    ('[network.eth0]\ndns = "one.one"', "network.eth0.dns = 'one.one'", "one IPv4 or IPv6 address"),
    ('[network.eth0]\nmetric = 5', "network.eth0.metric = 5", "one of the keys address, dhcp, dns, gateway"),
    ("[wan.dsl]", "wan.dsl = {}", "at least one of the keys interface, driver, mac"),
    ('[wan.dsl]\ninterface = "a b"', "wan.dsl.interface = 'a b'", "* stands for any characters"),
    ('[wan.dsl]\nmac = "02:00"', "wan.dsl.mac = '02:00'", "'02:00:5e:10:00:01'"),
    ('[wan.dsl]\ndriver = ""', "wan.dsl.driver = ''", "ethtool -i"),
    ('[wan.dsl]\nbus = "1-1"', "wan.dsl.bus = '1-1'", "driver, "),
    ('[wan.dsl]\ninterface = "e*"\nbackup = true', "wan.dsl = {", "use = 'backup' in place of the key backup"),
    ('[wan.dsl]\ninterface = "e*"\npriority = 0', "wan.dsl.priority = 0", "a whole number from 1 to 1000"),
    ('[wan.dsl]\ninterface = "e*"\ndownload = "50"', "wan.dsl.download = '50'", "a rate above zero with its unit"),
    ('[wan.dsl]\ninterface = "e*"\nupload = "0mbit"', "wan.dsl.upload = '0mbit'", "a rate above zero"),
    ('[wan.dsl]\ninterface = "e*"\nadapt = true', "wan.dsl = {", "adapt = true only with download, upload or both"),
    ('[wan."a b"]\ninterface = "e*"', "wan.a b", "names of 1 to 40 of"),
    ("\n".join(f'[wan.a{n}]\ninterface = "eth{n}"' for n in range(9)), "wan = ", "tables such as [wan.dsl]"),
    ('[wan.dsl.pppoe]\nuser = "u"', "wan.dsl.pppoe.password = '(missing)'", "the password that the provider"),
    (PPPOE.replace('"p"', '"é"'), "wan.dsl.pppoe.password = '(not shown)'", "signs of ASCII"),
    (PPPOE.replace('"p"', '"a\\nb"'), "wan.dsl.pppoe.password = '(not shown)'", "signs of ASCII"),
    (PPPOE.replace('"u"', "5"), "wan.dsl.pppoe.user = 5", "the name that the provider gave you"),
    (PPPOE + "vlan = 4095", "wan.dsl.pppoe.vlan = 4095", "a whole number from 1 to 4094"),
    (PPPOE + "mtu = 1500", "wan.dsl.pppoe.mtu = 1500", "one of the keys password, user, vlan"),
    (PPPOE.replace('interface = "end1"', ""), "{'pppoe': {'user': 'u', 'password': '(not shown)'}}", "at least one of"),
    (MODEM.replace("internet", "a b"), "wan.lte.modem.apn = 'a b'", "'internet'"),
    (MODEM + "pin = 1234", "wan.lte.modem.pin = '(not shown)'", "4 to 8 digits in quotes"),
    (MODEM + 'pin = "123"', "wan.lte.modem.pin = '(not shown)'", "4 to 8 digits in quotes"),
    (MODEM + f'password = "{"x" * 65}"', "wan.lte.modem.password = '(not shown)'", "1 to 64 letters"),
    (ACCESS_POINT.replace("12345678", "1234567"), "access_point.passphrase = '(not shown)'", "8 to 63"),
    (ACCESS_POINT + "channel = 14", "access_point.channel = 14", "1 to 13 (2.4 GHz)"),
    (ACCESS_POINT + "channel = 52", "access_point.channel = 52", "one of 36, 40, 44, 48"),
    (ACCESS_POINT + "channel = true", "access_point.channel = True", "1 to 13 (2.4 GHz)"),
    (ACCESS_POINT + "width = 160", "access_point.width = 160", "20; with channels of 5 GHz"),
    (ACCESS_POINT + "width = 40", "'passphrase': '(not shown)'", "width = 20; with channels of 5 GHz"),
    (ACCESS_POINT + "channel = 165\nwidth = 80", "access_point = ", "width = 20; with channels of 5 GHz"),
    (ACCESS_POINT.replace("12345678", "ab" * 32) + "wpa3 = true", "'passphrase': '(not shown)'", "and not the key"),
    ('[lan]\ninterface = "end0"', "lan.address = '(missing)'", "'192.168.77.1/24'"),
    ('[lan]\ninterface = "e*"\naddress = "192.168.77.1/24"', "lan.interface = 'e*'", "a network interface"),
    *(
        (f'[lan]\ninterface = "end0"\naddress = "{address}"', f"lan.address = '{address}'", "a private IPv4 address")
        for address in ("192.168.7.1", "192.168.7.0/24", "192.168.7.255/24", "8.8.8.8/24", "10.0.0.1/31", "fd00::1/64")
    ),
    *(
        (CPE + f"dhcp_range = {found}", "lan.dhcp_range = ", "two addresses of the LAN")
        for found in (
            '["192.168.77.100"]',
            '["192.168.77.200", "192.168.77.100"]',
            '["192.168.78.100", "192.168.78.200"]',
            '["192.168.77.1", "192.168.77.200"]',
            '["192.168.77.100", "192.168.77.255"]',
            '"192.168.77.100-200"',
            "5",
        )
    ),
    *(
        (CPE + f"not_bonded_ports = [{port}]", f"lan.not_bonded_ports[0] = {said}", "'6000-6100', of 1 to 65535")
        for port, said in (
            ("0", "0"), ("65536", "65536"), ("true", "True"), ('"90-80"', "'90-80'"), ('"tcp/25"', "'tcp/25'"),
        )
    ),
    (CPE + f"not_bonded_ports = {list(range(1, 66))}", "lan.not_bonded_ports = ", "up to 64"),
    *(
        (CPE + f"dns = {given}", "lan.dns = ", "'nobody', 'links' (in clear), or a list of 1 to 8 name servers")
        for given in (
            '"gateway"',
            "[]",
            '["9.9.9.9"]',
            '["9.9.9.9#"]',
            '["9.9.9.9#quad9"]',
            '["dns.quad9.net#9.9.9.9"]',
            '["9.9.9.9:853#dns.quad9.net"]',
            str(["9.9.9.9#dns.quad9.net"] * 9),
        )
    ),
    (CPE + 'ipv6 = "links"', "lan.ipv6 = 'links'", "'gateway', 'link', 'translated' or 'off'"),
    (CPE + 'ipv6_prefix = "2001:db8::/64"', "lan.ipv6_prefix = '2001:db8::/64'", "a private IPv6 network of length 64"),
    (ENROLMENT + 'prefix = "2001:db8::/48"', "enrolment[0].prefix = '2001:db8::/48'", "of length 64"),
    (BYPASS, "bypass[0] = {'to': 'dsl'}", "at least one of the keys domains, prefixes, ports, devices"),
    ('[[bypass]]\nports = ["tcp/25"]', "bypass[0].to = '(missing)'", "'best' (the best link that works)"),
    (BYPASS + 'domain = ["a.com"]', "bypass[0].domain", "one of the keys devices, domains, ports, prefixes, to"),
    *(
        (BYPASS + f'domains = ["{name}"]', f"bypass[0].domains[0] = '{name}'", "a domain of two or more parts")
        for name in ("com", "*.a.com", "A.com", "a.com.", "-a.com", "b\u00fccher.de", "192.0.2.1", "a b.com", "a/b.com")
    ),
    *(
        (BYPASS + f'prefixes = ["{prefix}"]', f"bypass[0].prefixes[0] = '{prefix}'", accepted)
        for prefix, accepted in (
            ("2001::/32", "a network of the Internet"),
            ("fd00::/16", "private addresses are never bonded"),
            ("4000::/16", "a network of the Internet"),
            ("2001:db8::1/64", "without host bits"),
            ("198.51.100.1/24", "without host bits"),
            ("192.168.8.0/24", "private addresses are never bonded"),
            ("0.0.0.0/0", "a network of the Internet"),
            ("224.0.0.0/4", "a network of the Internet"),
        )
    ),
    *(
        (BYPASS + f"ports = [{port}]", f"bypass[0].ports[0] = {port}".replace('"', "'"), "tcp/ or udp/ and a port")
        for port in ("25", '"25"', '"tcp/0"', '"sctp/25"', '"tcp/25-"', '"udp/2-1"', '"tcp/65536"')
    ),
    *(
        (BYPASS + f'devices = ["{device}"]', f"bypass[0].devices[0] = '{device}'", "the MAC address of a device")
        for device in ("192.168.77.9", "02:00:5e:10:00", "01:00:5e:10:00:01", "02-00-5e-10-00-01")
    ),
    (BYPASS + f"ports = {[f'tcp/{port}' for port in range(1, 258)]}", "bypass[0].ports = ", "up to 256"),
    *(
        (FORWARD.replace(line, wrong), f"forward[0]{key} = {value}", accepted)
        for line, wrong, key, value, accepted in (
            ('["tcp/443"]', '["443"]', ".ports[0]", "'443'", "tcp/ or udp/ and a port"),
            ('["tcp/443"]', "[]", ".ports", "[]", "a list of 1 to 64"),
            ('"192.168.77.20"', '"printer"', ".device", "'printer'", "an address of the LAN"),
            ('device = "192.168.77.20"', "", ".device", "'(missing)'", "an address of the LAN"),
            ("to_port = 8443", "to_port = 0", ".to_port", "0", "1 to 65535"),
            ("to_port = 8443", 'mac = "02:00"', ".mac", "'02:00'", "the MAC address of a device"),
            ('["tcp/443"]', '["tcp/443", "tcp/80"]', "", "{", "to_port 1 to 65535, where all ports of the table"),
            ('["tcp/443"]', '["tcp/443-444"]', "", "{", "to_port 1 to 65535, where all ports of the table"),
        )
    ),
    ((BYPASS + 'ports = ["tcp/25"]\n') * 17, "bypass = \"[{", "up to 16 tables [[bypass]]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named", "accepted"), WRONG, ids=lambda text: text[:60])
def test_a_wrong_file_gets_one_line_with_key_value_and_what_is_accepted(text: str, named: str, accepted: str) -> None:
    if accepted == "not valid TOML":
        assert accepted in lines(text)[0]
        return
    line = lines(text)[-1]
    assert named in line
    assert accepted in line.partition(": accepted: ")[2]


BETWEEN_KEYS = [
    ('gateway = "203.0.113.5"', ["wan = []: accepted: two or more, up to 8", "lan = '(missing)': accepted: a table"]),
    (CPE.replace('[wan.lte]\ninterface = "enx*"\n', ""), ["wan = ['dsl']: accepted: two or more, up to 8"]),
    (CPE.partition("[lan]")[0], ["lan = '(missing)': accepted: a table [lan]"]),
    (LINKS, ["enrolment = '(missing)': accepted: tables [[enrolment]] as `tributary-gateway enrol` prints them; or"]),
    ('leg = "plain"\n' + LINKS + ENROLMENT, ["gateway = '(missing)': accepted: an address"]),
    ('leg = "wireguard"\n' + CPE, ["enrolment = '(missing)': accepted: tables [[enrolment]]"]),
    (CPE + 'dns = "nobody"\n', ["lan.dns = 'nobody': accepted: 'links' or servers, since without tunnels"]),
    (
        LINKS
        + "".join(
            f'[[bypass]]\ndomains = ["{"a." * number}example.com"]\nports = ["tcp/{99 - number}"]\nto = "dsl"\n'
            for number in range(11)
        )
        + ENROLMENT
        + 'prefix = "2001:db8:1:1::/64"\n',
        ["bypass[10].domains[0] = 'a.a.a.a.a.a.a.a.a.a.example.com': accepted: a domain that is in at most 10 tables"],
    ),
    (
        CPE + '[tunnels]\nprefix = "wlan"\n',
        ["tunnels.prefix = 'wlan': accepted: a prefix with which no other interface"],
    ),
    (
        CPE.replace("end0", "tb0"),
        ["tunnels.prefix = 'tb': accepted: a prefix with which no other interface is called tb0 to tb9"],
    ),
    (CPE + ENROLMENT, ["leg = '(missing)': accepted: 'wireguard' or 'plain', since there are both"]),
    (
        LINKS + ENROLMENT + ENROLMENT.replace('10.84.0.1"', '10.84.1.1"'),
        ["enrolment[1].inside = '10.84.1.1': accepted: 10.84.0.1, as in the first table"],
    ),
    (
        LINKS.replace("192.168.77.1/24", "10.84.0.30/24") + ENROLMENT,
        ["lan.address = '10.84.0.30/24': accepted: a network without 10.84.0.1 and 10.84.0.16/28"],
    ),
    (CPE.replace("enx*", "wlan0"), ["wan.lte = {'interface': 'wlan0'}: accepted: a rule that no other link has"]),
    (CPE.replace("enx*", "en*"), ["wan.lte.interface = 'en*': accepted: one that lan.interface, 'end0', does not fit"]),
    (CPE.replace("203.0.113.5", "192.168.77.5"), ["gateway = '192.168.77.5:5124': accepted: an address that is not"]),
    (CPE + "[network.end0]", ["network.end0 = '(given)': accepted: no such table"]),
    (CPE + 'not_bonded_ports = [25, "20-30"]', ["lan.not_bonded_ports[1] = 'tcp/20-30': accepted: nothing that"]),
    (CPE.replace("wan.lte", "wan.best"), ["wan.best = '(given)': accepted: another name, since 'best' means"]),
    (
        CPE + BYPASS.replace("dsl", "adsl") + 'ports = ["tcp/25"]',
        ["bypass[0].to = 'adsl': accepted: one of 'dsl', 'lte', 'best', 'gateway'"],
    ),
    (
        CPE + BYPASS + 'domains = ["a.example.com", "example.com", "b-example.com"]',
        ["bypass[0].domains[1] = 'example.com': accepted: nothing that bypass[0].domains[0], 'a.example.com', has"],
    ),
    (
        CPE + BYPASS + 'prefixes = ["198.51.100.0/24", "203.0.113.0/24", "198.51.100.7"]',
        ["bypass[0].prefixes[2] = '198.51.100.7/32': accepted: nothing that bypass[0].prefixes[0]"],
    ),
    (
        CPE + BYPASS + 'prefixes = ["198.51.100.0/24", "2001:db8::/32", "2001:db8:1::/48"]',
        ["bypass[0].prefixes[2] = '2001:db8:1::/48': accepted: nothing that bypass[0].prefixes[1], '2001:db8::/32'"],
    ),
    (CPE + 'ipv6 = "gateway"', ["lan.ipv6 = 'gateway': accepted: another value, since no [[enrolment]]"]),
    (LINKS + 'ipv6 = "gateway"\n' + ENROLMENT, ["lan.ipv6 = 'gateway': accepted: another value, since no"]),
    (CPE + 'ipv6 = "translated"', ["lan.ipv6_prefix = '(missing)': accepted: with ipv6 = 'translated', and only then"]),
    (CPE + 'ipv6_prefix = "fd00::/64"', ["lan.ipv6_prefix = 'fd00::/64': accepted: with ipv6 = 'translated', and"]),
    (CPE + "bond_ipv6 = true", ["lan.bond_ipv6 = True: accepted: only with ipv6 = 'link' or 'translated'"]),
    (
        CPE + 'ipv6 = "link"\n[network.wlan0]\naddress = "192.0.2.9/24"\n' + MODEM,
        ["lan.ipv6 = 'link': accepted: 'gateway' or 'off', since no link is by DHCP or PPPoE"],
    ),
    (
        CPE + BYPASS + 'ports = ["tcp/20-30", "udp/20-30", "tcp/30-40"]',
        ["bypass[0].ports[2] = 'tcp/30-40': accepted: nothing that bypass[0].ports[0], 'tcp/20-30', has"],
    ),
    (
        CPE + BYPASS + 'devices = ["02:00:5e:10:00:0a", "02:00:5E:10:00:0A"]',
        ["bypass[0].devices[1] = '02:00:5e:10:00:0a': accepted: nothing that bypass[0].devices[0]"],
    ),
    (
        CPE + BYPASS + 'domains = ["example.com"]\n' + BYPASS + 'domains = ["a.example.com"]\nports = ["tcp/25"]',
        ["bypass[1] = '(given)': accepted: one that bypass[0], which counts before it, leaves something"],
    ),
    (
        CPE.replace("wan.dsl", "wan.dsl-upstairs").replace("wlan0", "end1") + LOGIN.replace("dsl", "dsl-upstairs"),
        ["wan.dsl-upstairs = '(given)': accepted: a name of up to 10 signs"],
    ),
    (
        CPE.replace('interface = "wlan0"', 'driver = "r8169"') + LOGIN,
        ["wan.dsl.interface = '(missing)': accepted: with pppoe the whole name", "wan.dsl.driver = '(given)'"],
    ),
    (
        CPE.replace("wlan0", "end?").replace("end0", "eth0") + LOGIN,
        ["wan.dsl.interface = 'end?': accepted: with pppoe the whole name of the interface"],
    ),
    (
        CPE.replace("wlan0", "enp1s0").replace("enx*", "en*").replace("end0", "eth0") + LOGIN,
        ["wan.lte.interface = 'en*': accepted: one that enp1s0, which is for wan.dsl, does not fit"],
    ),
    (
        CPE.replace("wlan0", "end1").replace("enx*", "ppp*") + LOGIN,
        ["wan.lte.interface = 'ppp*': accepted: one that ppp-dsl, which is for wan.dsl, does not fit"],
    ),
    (
        CPE.replace("wlan0", "end1") + LOGIN + '[wan.dsl.modem]\napn = "a"\n[network.end1]',
        ["wan.dsl.modem = '(given)': accepted: either pppoe or modem", "network.end1 = '(given)': accepted: no such"],
    ),
    (CPE + MODEM + MODEM.replace("lte", "dsl"), ["wan.lte.modem = '(given)': accepted: one link with a modem"]),
    (
        CPE.replace("wlan0", "end1") + ACCESS_POINT + WIFI + 'passphrase = "12345678"',
        ["access_point.interface = '(missing)': accepted: the name of a wireless interface, such as 'wlan0', other"],
    ),
    (
        CPE.replace("wlan0", "wlan1") + ACCESS_POINT + WIFI + 'passphrase = "12345678"\ninterface = "wlan1"',
        ["access_point.interface = '(missing)'"],
    ),
    (CPE + ACCESS_POINT, ["wan.dsl.interface = '(given)': accepted: one that access_point.interface, 'wlan0', does"]),
    (
        CPE.replace("wlan0", "end1") + ACCESS_POINT + "[network.wlan0]",
        ["network.wlan0 = '(given)': accepted: no such table: the access point belongs to the LAN"],
    ),
    (CPE + FORWARD, ["enrolment = '(missing)': accepted: tables [[enrolment]] as `tributary-gateway enrol` prints"]),
    *(
        (LINKS + FORWARD.replace("77.20", host) + ENROLMENT, [f"forward[0].device = '192.168.{host}': accepted: an"])
        for host in ("77.1", "77.0", "77.255", "78.20")
    ),
    (
        LINKS + FORWARD + FORWARD.replace("tcp/443", "tcp/443-445").replace("to_port = 8443", "") + ENROLMENT,
        ["forward[1].ports = 'tcp/443-445': accepted: nothing that forward[0] has as well: tcp/443"],
    ),
    (
        LINKS + "dhcp_range = []\n" + FORWARD + 'mac = "02:00:5e:10:00:01"\n' + ENROLMENT,
        ["forward[0].mac = '02:00:5e:10:00:01': accepted: no such key, since dhcp_range = []"],
    ),
    (
        LINKS
        + (FORWARD + 'mac = "02:00:5e:10:00:01"\n')
        + (FORWARD.replace("443", "444").replace("77.20", "77.21") + 'mac = "02:00:5e:10:00:01"\n')
        + ENROLMENT,
        ["forward[1].mac = '02:00:5e:10:00:01': accepted: one device for 192.168.77.21, as in forward[0]"],
    ),
    (CPE + '[network.wlan0]\naddress = "192.168.0.9/16"', ["lan.address = '192.168.77.1/24': accepted: a network"]),
]


@pytest.mark.parametrize(("text", "said"), BETWEEN_KEYS, ids=lambda value: str(value)[-40:])
def test_contradictions_between_keys_are_named(text: str, said: list[str]) -> None:
    found = lines(text, Role.CPE)
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))


def test_tables_of_a_by_pass_may_overlap_as_long_as_each_has_something_of_its_own() -> None:
    tables = [
        'domains = ["a.example.com"]',
        'domains = ["example.com"]',
        'domains = ["example.com", "example.net"]\nports = ["tcp/25"]',
        'ports = ["tcp/20-30"]',
        'ports = ["tcp/25-40"]',
        'prefixes = ["198.51.100.0/25"]\ndevices = ["02:00:5e:10:00:01"]',
        'prefixes = ["198.51.100.0/24"]',
    ]
    text = CPE + "\n".join(BYPASS + table for table in tables)
    assert len(read(text.encode(), Role.CPE).bypass) == len(tables)


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = lines('role = "x"\nhostname = "A"\n[wan.dsl]\n[lan]\ninterface = "end0"\n')
    assert [line.split(" ")[1] for line in found] == ["role", "hostname", "wan.dsl", "lan.address"]


def test_a_file_that_is_no_text_or_no_toml_is_named() -> None:
    assert "not text in UTF-8" in lines('role = "cpe"'.encode("utf-16"))[0]
    assert "not valid TOML" in lines("role = ")[0]


def test_curly_quotes_are_named() -> None:
    assert "quotes must be straight ones" in lines("role = \u201ccpe\u201d")[0]
    assert "straight" not in lines("# \u201chere\u201d\nrole = ")[0]


def test_a_private_key_is_not_repeated() -> None:
    (line,) = lines('ssh_keys = ["""-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"""]')
    assert "c2VjcmV0" not in line
    assert "belongs nowhere but to its owner" in line


def test_a_value_is_repeated_only_as_far_as_it_helps() -> None:
    assert len(lines(f'hostname = "{"a" * 500}"')[0]) < 250


def test_editors_of_windows_are_no_obstacle() -> None:
    assert read(b'\xef\xbb\xbfrole = "cpe"\r\nhostname = "box"\r\n', Role.GATEWAY).hostname == "box"


@pytest.mark.parametrize("hashed", [YESCRYPT, SHA512, SHA512.replace("$6$", "$6$rounds=9000$")])
def test_hashes_of_both_kinds_are_accepted(hashed: str) -> None:
    assert read(f'password_hash = "{hashed}"'.encode(), Role.GATEWAY).password_hash == hashed


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("203.0.113.5", "203.0.113.5:5124"),
        ("203.0.113.5:99", "203.0.113.5:99"),
        ("2001:db8::5", "[2001:db8::5]:5124"),
        ("[2001:db8::5]:99", "[2001:db8::5]:99"),
    ],
)
def test_a_gateway_has_the_usual_port_unless_it_says_another(text: str, target: str) -> None:
    assert str(read(f'gateway = "{text}"'.encode(), Role.GATEWAY).gateway) == target


@pytest.mark.parametrize(
    ("address", "first", "last"),
    [
        ("192.168.77.1/24", "192.168.77.128", "192.168.77.254"),
        ("192.168.77.200/24", "192.168.77.1", "192.168.77.127"),
        ("10.0.0.1/30", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1/8", "10.128.0.0", "10.255.255.254"),
    ],
)
def test_devices_get_the_half_of_the_network_that_the_box_is_not_in(address: str, first: str, last: str) -> None:
    lan = read(CPE.replace("192.168.77.1/24", address).encode(), Role.CPE).lan
    assert lan is not None
    assert lan.leases is not None
    assert tuple(map(str, lan.leases)) == (first, last)


def shipped(uncommented: bool) -> bytes:
    text = SHIPPED.read_text()
    return (re.sub(r"^# ", "", text, flags=re.MULTILINE) if uncommented else text).encode()


@pytest.mark.parametrize("role", Role)
def test_the_file_on_the_image_is_accepted_as_it_is_and_sets_nothing(role: Role) -> None:
    assert read(shipped(uncommented=False), role) == Card.model_validate({})


@pytest.mark.parametrize("role", Role)
def test_the_file_on_the_image_is_accepted_with_all_its_settings_on(role: Role) -> None:
    card = read(shipped(uncommented=True).replace(b'role = "cpe"', f'role = "{role}"'.encode()), Role.GATEWAY)
    assert card.role is role
    assert plan(card, facts(role))


def test_the_file_on_the_image_has_every_key() -> None:
    card = read(shipped(uncommented=True), Role.GATEWAY)
    assert card.model_fields_set == set(Card.model_fields)
    links = [card.wan["lte"], card.wan["fibre"].pppoe, card.wan["mobile"].modem]
    given = (
        card.wifi,
        card.access_point,
        card.lan,
        card.probe,
        card.tunnels,
        *card.network.values(),
        *links,
        *card.bypass,
        *card.forward,
    )
    missing = [set(type(each).model_fields) - each.model_fields_set for each in given if each is not None]
    assert set.union(*missing) == {"dhcp", "mac", "pppoe", "modem"}


def test_what_the_other_role_has_is_checked_and_not_used() -> None:
    card = read(shipped(uncommented=True), Role.GATEWAY)
    assert "Not used, since this box is a cpe: client_networks, public_name." in next_steps.next_steps(
        card, facts(Role.CPE)
    )
    assert "wan.dsl.mac" in lines('[wan.dsl]\nmac = "x"', Role.GATEWAY)[0]


def test_the_file_on_the_image_fits_editors_and_screens() -> None:
    text = Path(SHIPPED).read_text()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 120
