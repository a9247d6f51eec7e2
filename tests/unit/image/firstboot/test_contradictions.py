"""Cards whose keys do not go together: each with the lines that say why."""

import pytest

from image.firstboot.reading import read
from image.firstboot.settings import Role
from tests.unit.image.firstboot.cards import (
    ACCESS_POINT,
    BYPASS,
    ENROLMENT,
    FORWARD,
    HOME,
    LINKS,
    LOGIN,
    MODEM,
    WIFI,
    lines,
)

BETWEEN_KEYS: list[tuple[str, ...]] = [
    (
        HOME.replace('"enx*"', '"enx*"\nvlan = 832'),
        "wan.lte.interface = 'enx*': accepted: with vlan the whole name of the interface",
    ),
    (
        HOME.replace('interface = "enx*"', 'driver = "cdc_ether"\nvlan = 832'),
        "wan.lte.interface = '(missing)': accepted: with vlan the whole name",
        "wan.lte.driver = '(given)': accepted: no such key with vlan",
    ),
    (
        HOME.replace('"enx*"', '"end1"\nvlan = 832') + '[network.end1]\naddress = "192.0.2.2/24"\n',
        "network.end1 = '(given)': accepted: no such table with vlan; for fixed addresses interface = 'end1.832'",
    ),
    (
        HOME.replace("[wan.lte]", "[wan.longer-name]").replace('"enx*"', '"end1"\nvlan = 832'),
        "wan.longer-name = '(given)': accepted: a name of up to 10 signs, since with vlan",
    ),
    ("[routers]\ndns = false", "public_name = '(missing)': accepted: with a table [routers], a name or"),
    (
        'public_name = "a.example"\n[routers]\nname = "b.example"',
        "routers.name = 'b.example': accepted: no such key: public_name is the name",
    ),
    ('gateway = "203.0.113.5"', "wan = []: accepted: two or more, up to 8", "lan = '(missing)': accepted: a table"),
    (HOME.replace('[wan.lte]\ninterface = "enx*"\n', ""), "wan = ['dsl']: accepted: two or more, up to 8"),
    (HOME.partition("[lan]")[0], "lan = '(missing)': accepted: a table [lan]"),
    (LINKS, "enrolment = '(missing)': accepted: tables [[enrolment]] as `tributary enrol` prints them; or"),
    ('leg = "plain"\n' + LINKS + ENROLMENT, "gateway = '(missing)': accepted: an address"),
    ('leg = "wireguard"\n' + HOME, "enrolment = '(missing)': accepted: tables [[enrolment]]"),
    (HOME + 'dns = "nobody"\n', "lan.dns = 'nobody': accepted: 'links' or servers, since without tunnels"),
    (
        LINKS
        + "".join(
            f'[[bypass]]\ndomains = ["{"a." * number}example.com"]\nports = ["tcp/{99 - number}"]\nto = "dsl"\n'
            for number in range(11)
        )
        + ENROLMENT
        + 'prefix = "2001:db8:1:1::/64"\n',
        "bypass[10].domains[0] = 'a.a.a.a.a.a.a.a.a.a.example.com': accepted: a domain that is in at most 10 tables",
    ),
    (
        HOME + '[tunnels]\nprefix = "wlan"\n',
        "tunnels.prefix = 'wlan': accepted: a prefix with which no other interface",
    ),
    (
        HOME.replace("end0", "tb0"),
        "tunnels.prefix = 'tb': accepted: a prefix with which no other interface is called tb0 to tb9",
    ),
    (
        LINKS + ENROLMENT + '[probe]\ntarget = "203.0.113.5:5124"\n',
        "probe.target = '203.0.113.5:5124': accepted: no such key, or a port of 10.84.0.1, the gateway inside",
    ),
    (HOME + ENROLMENT, "leg = '(missing)': accepted: 'wireguard' or 'plain', since there are both"),
    (
        LINKS + ENROLMENT + ENROLMENT.replace('10.84.0.1"', '10.84.1.1"'),
        "enrolment[1].inside = '10.84.1.1': accepted: 10.84.0.1, as in the first table",
    ),
    (
        LINKS.replace("192.168.77.1/24", "10.84.0.30/24") + ENROLMENT,
        "lan.address = '10.84.0.30/24': accepted: a network without 10.84.0.1 and 10.84.0.16/28",
    ),
    (HOME.replace("enx*", "wlan0"), "wan.lte = {'interface': 'wlan0'}: accepted: a rule that no other link has"),
    (HOME.replace("enx*", "en*"), "wan.lte.interface = 'en*': accepted: one that lan.interface, 'end0', does not fit"),
    (HOME.replace("203.0.113.5", "192.168.77.5"), "gateway = '192.168.77.5:5124': accepted: an address that is not"),
    (HOME + "[network.end0]", "network.end0 = '(given)': accepted: no such table"),
    (HOME + 'not_bonded_ports = [25, "20-30"]', "lan.not_bonded_ports[1] = 'tcp/20-30': accepted: nothing that"),
    (HOME.replace("wan.lte", "wan.best"), "wan.best = '(given)': accepted: another name, since 'best' means"),
    (
        HOME + BYPASS.replace("dsl", "adsl") + 'ports = ["tcp/25"]',
        "bypass[0].to = 'adsl': accepted: one of 'dsl', 'lte', 'best', 'gateway'",
    ),
    (
        HOME + BYPASS + 'domains = ["a.example.com", "example.com", "b-example.com"]',
        "bypass[0].domains[1] = 'example.com': accepted: nothing that bypass[0].domains[0], 'a.example.com', has",
    ),
    (
        HOME + BYPASS + 'prefixes = ["198.51.100.0/24", "203.0.113.0/24", "198.51.100.7"]',
        "bypass[0].prefixes[2] = '198.51.100.7/32': accepted: nothing that bypass[0].prefixes[0]",
    ),
    (
        HOME + BYPASS + 'prefixes = ["198.51.100.0/24", "2001:db8::/32", "2001:db8:1::/48"]',
        "bypass[0].prefixes[2] = '2001:db8:1::/48': accepted: nothing that bypass[0].prefixes[1], '2001:db8::/32'",
    ),
    (HOME + 'ipv6 = "gateway"', "lan.ipv6 = 'gateway': accepted: another value, since no [[enrolment]]"),
    (LINKS + 'ipv6 = "gateway"\n' + ENROLMENT, "lan.ipv6 = 'gateway': accepted: another value, since no"),
    (HOME + 'ipv6 = "translated"', "lan.ipv6_prefix = '(missing)': accepted: with ipv6 = 'translated', and only then"),
    (HOME + 'ipv6_prefix = "fd00::/64"', "lan.ipv6_prefix = 'fd00::/64': accepted: with ipv6 = 'translated', and"),
    (HOME + "bond_ipv6 = true", "lan.bond_ipv6 = True: accepted: only with ipv6 = 'link' or 'translated'"),
    (
        HOME + 'ipv6 = "link"\n[network.wlan0]\naddress = "192.0.2.9/24"\n' + MODEM,
        "lan.ipv6 = 'link': accepted: 'gateway' or 'off', since no link is by DHCP or PPPoE",
    ),
    (
        HOME + BYPASS + 'ports = ["tcp/20-30", "udp/20-30", "tcp/30-40"]',
        "bypass[0].ports[2] = 'tcp/30-40': accepted: nothing that bypass[0].ports[0], 'tcp/20-30', has",
    ),
    (
        HOME + BYPASS + 'devices = ["02:00:5e:10:00:0a", "02:00:5E:10:00:0A"]',
        "bypass[0].devices[1] = '02:00:5e:10:00:0a': accepted: nothing that bypass[0].devices[0]",
    ),
    (
        HOME + BYPASS + 'domains = ["example.com"]\n' + BYPASS + 'domains = ["a.example.com"]\nports = ["tcp/25"]',
        "bypass[1] = '(given)': accepted: one that bypass[0], which counts before it, leaves something",
    ),
    (
        HOME.replace("wan.dsl", "wan.dsl-upstairs").replace("wlan0", "end1") + LOGIN.replace("dsl", "dsl-upstairs"),
        "wan.dsl-upstairs = '(given)': accepted: a name of up to 10 signs",
    ),
    (
        HOME.replace('interface = "wlan0"', 'driver = "r8169"') + LOGIN,
        "wan.dsl.interface = '(missing)': accepted: with pppoe the whole name",
        "wan.dsl.driver = '(given)'",
    ),
    (
        HOME.replace("wlan0", "end?").replace("end0", "eth0") + LOGIN,
        "wan.dsl.interface = 'end?': accepted: with pppoe the whole name of the interface",
    ),
    (
        HOME.replace("wlan0", "enp1s0").replace("enx*", "en*").replace("end0", "eth0") + LOGIN,
        "wan.lte.interface = 'en*': accepted: one that enp1s0, which is for wan.dsl, does not fit",
    ),
    (
        HOME.replace("wlan0", "end1").replace("enx*", "ppp*") + LOGIN,
        "wan.lte.interface = 'ppp*': accepted: one that ppp-dsl, which is for wan.dsl, does not fit",
    ),
    (
        HOME.replace("wlan0", "end1") + LOGIN + '[wan.dsl.modem]\napn = "a"\n[network.end1]',
        "wan.dsl.modem = '(given)': accepted: either pppoe or modem",
        "network.end1 = '(given)': accepted: no such",
    ),
    (HOME + MODEM + MODEM.replace("lte", "dsl"), "wan.lte.modem = '(given)': accepted: one link with a modem"),
    (
        HOME.replace("wlan0", "end1") + ACCESS_POINT + WIFI + 'passphrase = "12345678"',
        "access_point.interface = '(missing)': accepted: the name of a wireless interface, such as 'wlan0', other",
    ),
    (
        HOME.replace("wlan0", "wlan1") + ACCESS_POINT + WIFI + 'passphrase = "12345678"\ninterface = "wlan1"',
        "access_point.interface = '(missing)'",
    ),
    (HOME + ACCESS_POINT, "wan.dsl.interface = '(given)': accepted: one that access_point.interface, 'wlan0', does"),
    (
        HOME.replace("wlan0", "end1") + ACCESS_POINT + "[network.wlan0]",
        "network.wlan0 = '(given)': accepted: no such table: the access point belongs to the LAN",
    ),
    (HOME + FORWARD, "enrolment = '(missing)': accepted: tables [[enrolment]] as `tributary enrol` prints"),
    *(
        (LINKS + FORWARD.replace("77.20", host) + ENROLMENT, f"forward[0].device = '192.168.{host}': accepted: an")
        for host in ("77.1", "77.0", "77.255", "78.20")
    ),
    (
        LINKS + FORWARD + FORWARD.replace("tcp/443", "tcp/443-445").replace("to_port = 8443", "") + ENROLMENT,
        "forward[1].ports = 'tcp/443-445': accepted: nothing that forward[0] has as well: tcp/443",
    ),
    (
        LINKS + "dhcp_range = []\n" + FORWARD + 'mac = "02:00:5e:10:00:01"\n' + ENROLMENT,
        "forward[0].mac = '02:00:5e:10:00:01': accepted: no such key, since dhcp_range = []",
    ),
    (
        LINKS
        + (FORWARD + 'mac = "02:00:5e:10:00:01"\n')
        + (FORWARD.replace("443", "444").replace("77.20", "77.21") + 'mac = "02:00:5e:10:00:01"\n')
        + ENROLMENT,
        "forward[1].mac = '02:00:5e:10:00:01': accepted: one device for 192.168.77.21, as in forward[0]",
    ),
    (HOME + '[network.wlan0]\naddress = "192.168.0.9/16"', "lan.address = '192.168.77.1/24': accepted: a network"),
]


@pytest.mark.parametrize("case", BETWEEN_KEYS, ids=lambda case: case[0][-40:])
def test_contradictions_between_keys_are_named(case: tuple[str, ...]) -> None:
    text, *said = case
    found = lines(text, Role.ROUTER)
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
    text = HOME + "\n".join(BYPASS + table for table in tables)
    assert len(read(text.encode(), Role.ROUTER).bypass) == len(tables)
