"""Cards with a value that is not accepted: one line names it, and says what would be."""

import pytest

from tests.unit.image.firstboot.cards import ACCESS_POINT, BYPASS, ENROLMENT, FORWARD, HOME, MODEM, PPPOE, WIFI, lines
from tests.unit.image.firstboot.systems import YESCRYPT, public_key

WRONG = [
    ('rôle = "router"', "rôle", "not valid TOML"),
    ('role = "cpe"', "role = 'cpe'", "'gateway' or 'router'"),
    ("role = 1", "role = 1", "'gateway' or 'router'"),
    ('rolle = "router"', "rolle = 'router'", "one of the keys access_point, admin_networks, bypass"),
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
    ('console = "on"', "console = 'on'", "or 'off'"),
    ('console_password_hash = "secret"', "console_password_hash = '(not shown)'", "mkpasswd --method=scrypt"),
    (f'console_password_hash = "{YESCRYPT}"', "console_password_hash = '(not shown)'", "never a password"),
    ('console_pasword = "secret"', "console_pasword = '(not shown)'", "one of the keys access_point"),
    ('client_networks = ["0.0.0.0/0"]', "client_networks[0] = '0.0.0.0/0'", "'/8' or longer"),
    ('client_networks = ["::/6"]', "client_networks[0] = '::/6'", "never the Internet"),
    ('client_networks = ["10.0.0.1/8"]', "client_networks[0] = '10.0.0.1/8'", "without host bits"),
    ('client_networks = "10.0.0.0/8"', "client_networks = '10.0.0.0/8'", "a list of networks"),
    ("[metrics]", "metrics.networks = '(missing)'", "a list of networks"),
    ("[metrics]\nnetworks = []", "metrics.networks = []", "a list of networks"),
    ('[metrics]\nnetworks = ["0.0.0.0/0"]', "metrics.networks[0] = '0.0.0.0/0'", "'/8' or longer"),
    ('[metrics]\naddress = "0.0.0.0:9465"', "metrics.address = '0.0.0.0:9465'", "networks"),
    ('admin_networks = ["198.51.100.1/24"]', "admin_networks[0] = '198.51.100.1/24'", "networks without host bits"),
    ('[routers]\nlan_prefix = "2001:db8::/64"', "routers.lan_prefix = '2001:db8::/64'", "an IPv6 prefix of length 32"),
    ("[routers]\nlan_prefixes = 1", "routers.lan_prefixes = 1", "one of the keys connections, converter_ports, dns"),
    ('public_name = "gateway.example:51840"', "public_name = 'gateway.example:51840'", "without a port"),
    ('gateway = "gateway.example"', "gateway = 'gateway.example'", "no name"),
    ('gateway = "203.0.113.5:0"', "gateway = '203.0.113.5:0'", "'203.0.113.5'"),
    ('gateway = "127.0.0.1"', "gateway = '127.0.0.1'", "an address, or an address and a port"),
    ('gateway = "fe80::1%eth0"', "gateway = 'fe80::1%eth0'", "an address"),
    (ENROLMENT.replace("AAEC", "AAE"), "enrolment[0].secret = '(not shown)'", "32 bytes in base64"),
    (ENROLMENT.replace("10.84.0.16/28", "10.84.0.0/24"), "enrolment[0].addresses = '10.84.0.0/24'", "of length 28"),
    ('leg = "ipsec"', "leg = 'ipsec'", "'wireguard' or 'plain'"),
    ('[probe]\ninterval = "0s"', "probe.interval = '0s'", "a time from '1s' to '3600s'"),
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
    ('[wan.dsl]\nbus = "1 1"', "wan.dsl.bus = '1 1'", "ethtool -i"),
    ('[wan.dsl]\nport = "1-1"', "wan.dsl.port = '1-1'", "driver, "),
    ('[wan.dsl]\ninterface = "end0"\nvlan = 4095', "wan.dsl.vlan = 4095", "a whole number from 1 to 4094"),
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
        (HOME + f"dhcp_range = {found}", "lan.dhcp_range = ", "two addresses of the LAN")
        for found in (
            *(["192.168.77.100"], ["192.168.77.200", "192.168.77.100"], ["192.168.78.100", "192.168.78.200"]),
            *(["192.168.77.1", "192.168.77.200"], ["192.168.77.100", "192.168.77.255"], '"192.168.77.100-200"', 5),
        )
    ),
    *(
        (HOME + f"not_bonded_ports = [{port}]", f"lan.not_bonded_ports[0] = {said}", "'6000-6100', of 1 to 65535")
        for port, said in (
            ("0", "0"), ("65536", "65536"), ("true", "True"), ('"90-80"', "'90-80'"), ('"tcp/25"', "'tcp/25'"),
        )
    ),
    (HOME + f"not_bonded_ports = {list(range(1, 66))}", "lan.not_bonded_ports = ", "up to 64"),
    *(
        (HOME + f"dns = {given}", "lan.dns = ", "'nobody', 'links' (in clear), or a list of 1 to 8 name servers")
        for given in (
            *('"gateway"', [], ["9.9.9.9"], ["9.9.9.9#"], ["9.9.9.9#quad9"], ["dns.quad9.net#9.9.9.9"]),
            *(["9.9.9.9:853#dns.quad9.net"], ["9.9.9.9#dns.quad9.net"] * 9),
        )
    ),
    *(
        (HOME + f'private_names = ["{name}"]', f"lan.private_names[0] = '{name}'", "a domain of two or more parts")
        for name in ("com", "*.a.com", "192.168.77.20", "a/b.com", "a.com\\nserver=1.1.1.1")
    ),
    (HOME + 'ipv6 = "links"', "lan.ipv6 = 'links'", "'gateway', 'link', 'translated' or 'off'"),
    (HOME + 'ipv6_prefix = "2001:db8::/64"', "lan.ipv6_prefix = '2001:db8::/64'", "a private IPv6 network"),
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
