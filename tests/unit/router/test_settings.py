import tomllib
from ipaddress import ip_address
from pathlib import Path

import pytest

from router import settings
from tests.refusals import command_error
from tests.unit.router.house import settings as read
from tributary.settings.errors import Exit
from tributary.settings.hosts import Target

WAN = '[wan.dsl]\ninterface = "eth0"\n'


def test_one_link_and_its_name_are_enough() -> None:
    found = read(WAN)
    assert (found.wan["dsl"].priority, found.wan["dsl"].use, found.wan["dsl"].gateway) == (100, "primary", ())
    assert (found.mptcp.subflows, found.mptcp.accepted_addresses, found.probe.target) == (8, 0, None)


def test_every_key_is_read() -> None:
    text = """
    [wan.dsl]
    interface = "eth*"
    driver = "r8152"
    mac = "02:00:5E:10:00:*"
    bus = "usb-*"
    priority = 1
    use = "backup"
    download = "50mbit"
    upload = "10mbit"
    metered = true
    monthly_cap = "50GB"
    cap_day = 31
    hours = ["22:00-06:00", "12:00-13:30"]
    fullmesh = true
    adapt = true
    gateway = ["192.168.1.1", "fe80::1"]
    [mptcp]
    subflows = 3
    accepted_addresses = 1
    [probe]
    target = "[2001:db8::5]:5124"
    interval = "5s"
    timeout = "1500ms"
    failures = 2
    """
    found, given = read(text), tomllib.loads(text)["wan"]["dsl"]
    wan = found.wan["dsl"]
    assert (wan.mac, wan.gateway) == ("02:00:5e:10:00:*", (ip_address("192.168.1.1"), ip_address("fe80::1")))
    written = ("use", "priority", "download", "upload", "adapt", "metered", "monthly_cap", "cap_day", "hours")
    assert wan.written == {key: given[key] for key in written}
    assert found.probe.target == Target(ip_address("2001:db8::5"), 5124)
    assert (found.probe.interval.seconds, found.probe.timeout.seconds) == (5, 1.5)
    assert str(found.probe.target) == "[2001:db8::5]:5124"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "wan = '(missing)'"),
        ("[wan]", "one to 8 tables"),
        (WAN + 'download = "50"', "wan.dsl.download = '50': accepted: a rate above zero with its unit"),
        (WAN + 'upload = "0mbit"', "a rate above zero"),
        (WAN + "adapt = true", "adapt = true only with download, upload or both"),
        (WAN + 'upload = "8mbit"\nadapt = true', "adapt = true only with a probe.target or an enrolment"),
        ("\n".join(f'[wan.w{number}]\ninterface = "w{number}"' for number in range(9)), "one to 8 tables"),
        ('[wan."a b"]\ninterface = "eth0"', "names of 1 to 40"),
        ("[wan.dsl]\npriority = 1", "wan.dsl = {'priority': 1}: accepted: at least one of the keys interface"),
        ('[wan.dsl]\ninterfaces = "eth0"', "wan.dsl.interfaces = 'eth0': accepted: one of the keys adapt, bus"),
        ("[wan.dsl]\ninterface = 5", "wan.dsl.interface = 5: accepted: text in which *"),
        ('[wan.dsl]\ninterface = ""', "accepted: text in which *"),
        ('[wan.dsl]\nmac = "eth0"', "accepted: a MAC address"),
        (WAN + "priority = 0", "wan.dsl.priority = 0: accepted: a whole number from 1 to 1000"),
        (WAN + 'use = "yes"', "wan.dsl.use = 'yes': accepted: 'primary'"),
        (WAN + 'metered = "yes"', "wan.dsl.metered = 'yes': accepted: true or false"),
        (WAN + "monthly_cap = 50", "wan.dsl.monthly_cap = 50: accepted: a size above zero with its unit"),
        (WAN + 'monthly_cap = "0B"', "a size above zero"),
        (WAN + 'monthly_cap = "1GB"\ncap_day = 32', "wan.dsl.cap_day = 32: accepted: a day of the month from 1 to 31"),
        (WAN + "cap_day = 3", "with monthly_cap alone"),
        (WAN + 'hours = "22:00-06:00"', "wan.dsl.hours = '22:00-06:00': accepted: a list of spans of local time"),
        (WAN + 'hours = ["22:00-24:00"]', "a list of spans of local time, such as ['22:00-06:00'"),
        (WAN + "hours = []", "a list of spans"),
        (WAN + "backup = true", "wan.dsl.backup = True: accepted: one of the keys adapt, "),
        (WAN + 'gateway = ["192.168.1.1", "192.168.1.2"]', "at most one IPv4 and one IPv6 address"),
        (WAN + 'gateway = ["fe80::1%eth0"]', "without scope"),
        (WAN + 'gateway = ["0.0.0.0"]', "at most one IPv4"),
        (WAN + 'gateway = "192.168.1.1"', "at most one IPv4"),
        (WAN + '[wan.other]\ninterface = "eth0"', "no two of which name the same interface"),
        (WAN + "[mptcp]\nsubflows = 9", "mptcp.subflows = 9: accepted: a whole number from 1 to 8"),
        (WAN + '[probe]\ntarget = "gateway.example:5124"', "no name, no loopback"),
        (WAN + '[probe]\ntarget = "203.0.113.5"', "an address and a port"),
        (WAN + '[probe]\ntarget = "203.0.113.5:0"', "an address and a port"),
        (WAN + '[probe]\ntarget = "127.0.0.1:80"', "no loopback"),
        (WAN + '[probe]\ntarget = "2001:db8::5:80"', "an address and a port"),
        (WAN + "[probe]\ninterval = 10", "probe.interval = 10: accepted: a time from '1s'"),
        (WAN + '[probe]\ntimeout = "0s"', "probe.timeout = '0s': accepted: a time from '1s'"),
        ('time_zone = "Berlin"\n' + WAN, "time_zone = 'Berlin': accepted: a time zone's name, such as 'Europe/Berlin'"),
        ('time_zone = "/etc"\n' + WAN, "accepted: a time zone's name"),
        (WAN + "[lans]\ncpu = 1", "lans = {'cpu': 1}: accepted: one of the keys bypass, bypassed, devices, enrolment,"),
    ],
)
def test_what_is_not_accepted_is_refused_with_what_would_be(text: str, part: str) -> None:
    with command_error(Exit.USAGE, part, begins="router.toml: "):
        read(text)


def test_drop_ins_say_when_links_are_used_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    file, folder = tmp_path / "router.toml", tmp_path / "router.d"
    file.write_text(WAN)
    folder.mkdir()
    for name, use in (("a", "backup"), ("b", "overflow")):
        (folder / f"{name}.toml").write_text(f'[wan.dsl]\nuse = "{use}"\n')
    assert settings.read(file).wan["dsl"].use == "overflow"
    assert settings.parse(WAN, "new.toml", file).wan["dsl"].use == "overflow"
    for text in ('[wan.lte]\nuse = "backup"\n', '[wan.dsl]\ninterface = "eth9"\n', '[wan.dsl]\nuse = "never"\n'):
        (folder / "c.toml").write_text(text)
        with command_error(Exit.USAGE, "router.d/c.toml: wan."):
            settings.read(file)
