"""What a plan says beside its files: units by role, what goes again, what an image lacks."""

import tomllib
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

import pytest

from image.firstboot.actions import DisableUnit, EnableUnit, MakeFolder, OnMachine, RemoveFile, SetPassword, WriteFile
from image.firstboot.apply import System, commands
from image.firstboot.code import PLACE
from image.firstboot.facts import Condition, Facts, GrowingPartition
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role
from image.firstboot.upkeep import upkeep
from tests.unit.image.firstboot.cards import HOME
from tests.unit.image.firstboot.systems import UNITS, YESCRYPT, facts, public_key
from tributary.settings.errors import CommandError, Exit

SUDO = "/etc/sudoers.d/tributary"


def units(text: str, given: Facts) -> dict[str, bool]:
    """By name, whether each is enabled."""
    found = plan(read(text.encode(), given.role), given)
    return {each.unit: isinstance(each, EnableUnit) for each in found if isinstance(each, (EnableUnit, DisableUnit))}


def paths(text: str, given: Facts) -> set[str]:
    return {each.path for each in plan(read(text.encode(), given.role), given) if isinstance(each, WriteFile)}


def test_a_gateway_runs_both_converters_throttler_and_firewall() -> None:
    assert units("", facts()) == {
        "tributary-squid.service": True,
        "tributary-converter.service": True,
        "tributary-throttler.service": True,
        "tributary-firewall.service": True,
        "tributary-gateway.service": False,
        "tributary-first-start.service": False,
        "tributary-router.service": False,
        "tributary-lan.service": False,
        "dnsmasq.service": False,
        "NetworkManager.service": False,
        "ModemManager.service": False,
        "ssh.service": False,
    }


@pytest.mark.parametrize("interface", ["end1", "end*"])
@pytest.mark.parametrize(("said", "asks"), [('dns = ["9.9.9.9"]', True), ('address = "198.51.100.10/29"', False)])
def test_a_link_with_a_table_of_its_interface_is_asked_for_a_prefix(interface: str, said: str, asks: bool) -> None:
    text = f"""\
role = "router"
gateway = "203.0.113.5"
[wan.fibre]
interface = "{interface}"
[wan.office]
interface = "lan9"
[network.end1]
{said}
[lan]
interface = "eth0"
address = "192.168.77.1/24"
ipv6 = "link"
"""
    found = plan(read(text.encode(), Role.ROUTER), facts(Role.ROUTER))
    (file,) = (each for each in found if isinstance(each, WriteFile) and each.path.endswith("-end1.network"))
    assert ("DHCPPrefixDelegation" in file.text or "PrefixDelegationHint" in file.text) is asks


def test_a_home_router_runs_its_daemon_its_converter_and_its_lan() -> None:
    assert units(HOME, facts(Role.ROUTER)) == {
        "tributary-router.service": True,
        "tributary-converter.service": True,
        "tributary-lan.service": True,
        "dnsmasq.service": True,
        "systemd-resolved.service": True,
        "tributary-firewall.service": True,
        "tributary-squid.service": False,
        "tributary-throttler.service": False,
        "tributary-gateway.service": False,
        "tributary-first-start.service": False,
        "NetworkManager.service": False,
        "ModemManager.service": False,
        "ssh.service": False,
    }


def test_the_first_start_page_finds_its_port_by_dhcp_beside_interfaces_with_settings_of_their_own() -> None:
    text = '[network.end1]\naddress = "198.51.100.10/29"\ngateway = "198.51.100.9"\n'
    files = [Path(path).name for path in sorted(paths(text, facts(Role.ROUTER))) if path.endswith(".network")]
    assert files == ["30-tributary-end1.network", "31-tributary-ethernet.network"]
    for other in ("first_start_page = false\n" + text, 'role = "gateway"\n' + text):
        assert "/etc/systemd/network/31-tributary-ethernet.network" not in paths(other, facts(Role.ROUTER))


def test_a_gateway_that_routers_find_by_a_name_has_tunnels_before_its_converter() -> None:
    found = plan(read(b'public_name = "gateway.example.net"', Role.GATEWAY), facts())
    enabled = [each.unit for each in found if isinstance(each, EnableUnit)]
    assert enabled.index("tributary-gateway.service") < enabled.index("tributary-converter.service")
    assert "/etc/tributary/gateway.toml" in {each.path for each in found if isinstance(each, WriteFile)}


def done(text: str, news: Set[str]) -> dict[str, str]:
    """For each unit of a home router that runs, what systemctl is told where the files ``news`` are new."""
    wifi = '[wifi]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\n'
    system = System(Path("/"), running=True)
    found = [
        each for each in plan(read((text + wifi).encode(), Role.ROUTER), facts(Role.ROUTER)) if type(each) is EnableUnit
    ]
    return started(found, system, news)


def started(found: Iterable[EnableUnit], system: System, news: Set[str]) -> dict[str, str]:
    """By unit, how it is started after all are known."""
    enabling, reading, *starting = commands(found, system, news)
    assert reading == ("systemctl", "daemon-reload")
    given = {unit: verb for _, verb, _, *units in starting for unit in units}
    assert set(given) == set(enabling[enabling.index("enable") + 1 :])
    return given


def test_units_of_a_system_in_a_folder_are_enabled_and_not_started() -> None:
    found: list[OnMachine] = [EnableUnit("a.service"), DisableUnit("b.service"), EnableUnit("c.service")]
    asked = list(commands(found, System(Path("/mnt"), running=False), frozenset()))
    common = ("systemctl", "--root=/mnt", "--quiet", "--no-reload")
    assert asked == [(*common, "enable", "a.service", "c.service"), (*common, "disable", "b.service")]


def test_an_edit_of_a_running_home_router_touches_only_what_it_is_about() -> None:
    nothing = done(HOME, frozenset())
    assert nothing.pop("tributary-firewall.service") == "reload-or-restart"
    assert set(nothing.values()) == {"start"}
    rules = done(HOME, {"/etc/tributary/lan.nft"})
    assert rules["tributary-lan.service"] == "reload-or-restart"
    assert rules["dnsmasq.service"] == "restart"
    assert {rules[f"tributary-{part}.service"] for part in ("router", "converter")} == {"start"}


def test_an_edit_of_a_running_home_router_cuts_no_connection() -> None:
    every = {
        each.path for each in plan(read(HOME.encode(), Role.ROUTER), facts(Role.ROUTER)) if isinstance(each, WriteFile)
    }
    found = done(HOME, every)
    assert {found[f"tributary-{part}.service"] for part in ("router", "converter", "lan")} == {"reload-or-restart"}


@pytest.mark.parametrize(
    ("card", "running"),
    [
        ("", ["tributary-firewall.service", "tributary-first-start.service"]),
        (
            '[lan]\ninterface = "end0"\naddress = "10.0.0.1/24"\n',
            ["tributary-firewall.service", "tributary-first-start.service"],
        ),
        ("first_start_page = false", ["tributary-firewall.service"]),
    ],
)
def test_a_home_router_that_is_not_set_up_runs_at_most_the_page_behind_its_firewall(
    card: str, running: list[str]
) -> None:
    found = units(card, facts(Role.ROUTER))
    assert [unit for unit, enabled in found.items() if enabled] == running


def test_the_page_s_code_is_for_the_page_alone_and_goes_with_it() -> None:
    (code,) = [
        each for each in plan(read(b"", Role.ROUTER), facts(Role.ROUTER)) if getattr(each, "path", "").endswith("/code")
    ]
    assert isinstance(code, WriteFile) and (code.text, code.mode) == ("abcdefgh\n", 0o600)
    assert f"/{PLACE}" not in paths(HOME, facts(Role.ROUTER)) | paths("first_start_page = false", facts(Role.ROUTER))
    assert RemoveFile(f"/{PLACE}") in plan(
        read(HOME.encode(), Role.ROUTER), facts(Role.ROUTER, owned_files=(f"/{PLACE}",))
    )


def test_the_firewall_lets_the_page_in_at_the_lan_s_side_alone() -> None:
    def rules(card: str) -> str:
        found = plan(read(card.encode(), Role.ROUTER), facts(Role.ROUTER))
        return next(each.text for each in found if isinstance(each, WriteFile) and each.path.endswith("site-card.nft"))

    at = "tcp_in iifname @lan_interfaces ip daddr {} tcp dport 80 accept\n"
    assert rules("").endswith(at.format("192.168.77.1"))
    assert rules('[lan]\ninterface = "end0"\naddress = "10.0.0.1/24"\n').endswith(at.format("10.0.0.1"))
    assert "dport 80" not in rules(HOME) + rules("first_start_page = false")
    assert "add element" not in rules("")


def test_units_end_before_others_start() -> None:
    given = facts(Role.ROUTER)
    found = [
        each for each in plan(read(HOME.encode(), Role.ROUTER), given) if isinstance(each, (EnableUnit, DisableUnit))
    ]
    assert found == sorted(found, key=lambda each: isinstance(each, EnableUnit))


def test_the_card_s_role_counts_before_the_image_s() -> None:
    assert units('role = "router"\n' + HOME, facts(Role.GATEWAY))["tributary-router.service"]
    assert units('role = "gateway"\n' + HOME, facts(Role.ROUTER))["tributary-squid.service"]


def test_an_image_that_lacks_a_unit_of_the_role_is_named() -> None:
    given = facts(units=frozenset(UNITS) - {"tributary-squid.service"})
    with pytest.raises(CommandError, match=r"tributary-squid\.service is not on this image") as caught:
        plan(read(b"", Role.GATEWAY), given)
    assert caught.value.code == Exit.UNAVAILABLE


def test_an_image_that_lacks_a_unit_of_the_other_role_is_fine() -> None:
    given = facts(units=frozenset(UNITS) - {"tributary-router.service", "dnsmasq.service", "tributary-lan.service"})
    assert "tributary-router.service" not in units("", given)


def test_ssh_runs_for_those_who_have_a_key() -> None:
    assert units(f'ssh_keys = ["{public_key()}"]', facts())["ssh.service"]
    assert not units(f'password_hash = "{YESCRYPT}"', facts())["ssh.service"]


def test_sudo_needs_no_password_only_where_somebody_can_log_in() -> None:
    assert SUDO in paths(f'ssh_keys = ["{public_key()}"]', facts())
    assert SUDO in paths(f'password_hash = "{YESCRYPT}"', facts())
    found = plan(read(b"", Role.GATEWAY), facts())
    assert RemoveFile(SUDO) in found
    assert RemoveFile("/home/tributary/.ssh/authorized_keys") in found
    assert not any(isinstance(each, MakeFolder) for each in found)


def test_without_a_hash_the_user_is_locked_and_root_always_is() -> None:
    assert {SetPassword("tributary", None), SetPassword("root", None)} <= set(plan(read(b"", Role.GATEWAY), facts()))
    hashed = plan(read(f'password_hash = "{YESCRYPT}"'.encode(), Role.GATEWAY), facts())
    assert {SetPassword("tributary", YESCRYPT), SetPassword("root", None)} <= set(hashed)


def test_what_was_written_last_time_goes_unless_it_is_written_again() -> None:
    given = facts(owned_files=("/etc/hostname", "/etc/systemd/network/33-tributary-old.network"))
    found = plan(read(b"", Role.GATEWAY), given)
    assert found[0] == RemoveFile("/etc/systemd/network/33-tributary-old.network")
    assert RemoveFile("/etc/hostname") not in found


def test_a_wireless_network_that_was_left_ends() -> None:
    given = facts(owned_units=("wpa_supplicant@wlan1.service",))
    assert units("", given)["wpa_supplicant@wlan1.service"] is False
    again = '[wifi]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\ninterface = "wlan1"'
    assert units(again, given)["wpa_supplicant@wlan1.service"] is True


PPPOE = '[wan.dsl.pppoe]\nuser = "u"\npassword = "p"\n'
MODEM = '[wan.lte.modem]\napn = "internet"\n'
ACCESS_POINT = '[access_point]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\n'


def router(text: str, given: Facts) -> dict[str, Any]:
    """The links of tributary-router."""
    (found,) = (each for each in plan(read(text.encode(), Role.ROUTER), given) if "tributary/router.toml" in str(each))
    assert isinstance(found, WriteFile)
    return dict(tomllib.loads(found.text)["wan"])


def test_a_line_by_pppoe_is_dialled_again_only_when_its_settings_change() -> None:
    text = HOME.replace("wan.dsl", "wan.my-dsl").replace("wlan0", "end1") + PPPOE.replace("dsl", "my-dsl")
    given = facts(Role.ROUTER)
    assert units(text, given)[r"ppp@tributary.my\x2ddsl.service"]
    found = (each for each in plan(read(text.encode(), Role.ROUTER), given) if isinstance(each, EnableUnit))
    (unit,) = (each for each in found if each.unit.startswith("ppp@"))
    assert unit.reads == ("/etc/ppp/peers/tributary.my-dsl",)
    system = System(Path("/"), running=True)
    assert set(started([unit], system, frozenset()).values()) == {"start"}
    assert set(started([unit], system, set(unit.reads)).values()) == {"restart"}


def test_a_line_by_pppoe_that_is_no_longer_on_the_card_ends() -> None:
    assert (
        units(HOME, facts(Role.ROUTER, owned_units=("ppp@tributary.dsl.service",)))["ppp@tributary.dsl.service"]
        is False
    )


def test_the_daemon_finds_a_link_at_the_interface_that_its_kind_gives_it() -> None:
    given = facts(Role.ROUTER)
    assert router(HOME.replace("wlan0", "end1") + PPPOE, given)["dsl"]["interface"] == "ppp-dsl"
    assert router(HOME.replace('interface = "enx*"\n', "") + MODEM, given)["lte"]["interface"] == "ww*"
    assert router(HOME.replace("enx*", "wwan1") + MODEM, given)["lte"]["interface"] == "wwan1"
    by_driver = router(HOME.replace('interface = "enx*"', 'driver = "cdc_mbim"') + MODEM, given)["lte"]
    assert "interface" not in by_driver
    assert by_driver["driver"] == "cdc_mbim"


def test_a_modem_is_left_to_networkmanager_which_runs_for_nothing_else() -> None:
    text, given = HOME.replace("enx*", "wwan0") + MODEM, facts(Role.ROUTER)
    assert {unit for unit in units(text, given) if "Manager" in unit} == {
        "ModemManager.service", "NetworkManager.service",
    }  # fmt: skip
    assert all(units(text, given)[unit] for unit in ("ModemManager.service", "NetworkManager.service"))
    assert not any("wan-lte" in path for path in paths(text, given))


def served(text: str, given: Facts) -> dict[str, str]:
    """The files about the LAN's interfaces, and hostapd's, by their paths."""
    found = (each for each in plan(read(text.encode(), Role.ROUTER), given) if isinstance(each, WriteFile))
    return {each.path: each.text for each in found if "lan" in each.path or "bridge" in each.path}


def test_an_access_point_and_the_wired_lan_are_one_network() -> None:
    found = served(HOME.replace("wlan0", "end1") + ACCESS_POINT, facts(Role.ROUTER))
    assert "\nbridge=br-lan\n" in found["/etc/hostapd/wlan0.conf"]
    assert "Name=br-lan\n" in found["/etc/systemd/network/20-tributary-lan.network"]
    assert "Name=br-lan\nKind=bridge\n" in found["/etc/systemd/network/20-tributary-bridge.netdev"]
    assert "Name=end0\n" in found["/etc/systemd/network/21-tributary-lan-port.network"]
    for path in ("/etc/tributary/lan.nft", "/etc/dnsmasq.d/tributary-lan.conf"):
        assert "br-lan" in found[path]
        assert "end0" not in found[path]


def test_a_lan_that_is_wireless_alone_needs_no_bridge() -> None:
    text = HOME.replace("wlan0", "end1").replace("end0", "wlan0") + ACCESS_POINT
    found = served(text, facts(Role.ROUTER))
    assert "bridge" not in found["/etc/hostapd/wlan0.conf"]
    assert "Name=wlan0\n" in found["/etc/systemd/network/20-tributary-lan.network"]
    assert not any("bridge" in path or "port" in path for path in found)


@pytest.mark.parametrize(
    ("wireless", "named", "taken"),
    [
        (("wlp2s0", "wlp3s0"), "end1", "wlp2s0"),
        (("wlp2s0", "wlp3s0"), "wlp2s0", "wlp3s0"),
        ((), "end1", "wlan0"),
    ],
)
def test_an_access_point_takes_the_first_wireless_interface_that_is_no_link(
    wireless: tuple[str, ...], named: str, taken: str
) -> None:
    given = facts(Role.ROUTER, wireless=wireless)
    assert units(HOME.replace("wlan0", named) + ACCESS_POINT, given)[f"hostapd@{taken}.service"]


def test_the_first_wireless_interface_joins_where_none_is_named() -> None:
    text = '[wifi]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\n'
    assert "/etc/wpa_supplicant/wpa_supplicant-wlp2s0.conf" in paths(text, facts(wireless=("wlp2s0", "wlp3s0")))
    assert "/etc/wpa_supplicant/wpa_supplicant-wlan0.conf" in paths(text, facts(wireless=()))


def test_the_throttler_looks_at_interfaces_that_are_there_since_it_refuses_others() -> None:
    def seen(text: str, wired: tuple[str, ...]) -> list[str]:
        (policy,) = [
            each.text
            for each in plan(read(text.encode(), Role.GATEWAY), facts(wired=wired))
            if isinstance(each, WriteFile) and each.path == "/etc/tributary/throttler.toml"
        ]
        return [path["interface"] for path in tomllib.loads(policy)["paths"].values()]

    assert seen("", wired=("end0", "end1")) == ["end0", "end1"]
    assert seen("[network.end1]\n[network.end7]\n", wired=("end0", "end1")) == ["end1"]
    assert seen("", wired=()) == ["lo"]


def test_a_rule_that_leaves_less_open_comes_first() -> None:
    text = HOME.replace("wlan0", "w*").replace("enx*", "wlx*") + '[wan.c]\nmac = "02:00:5e:10:00:01"\n'
    found = sorted(path for path in paths(text, facts(Role.ROUTER)) if "-wan-" in path)
    assert [path.rpartition("-")[2] for path in found] == ["c.network", "lte.network", "dsl.network"]


MIB = 1 << 20


def root(size: int, room: int, filesystem: int | None) -> Condition:
    return Condition(True, GrowingPartition("/dev/vda", 3, "/dev/vda3", size, room, filesystem))


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (root(900 * MIB, 9000 * MIB, 900 * MIB), ["grow partition 3 of /dev/vda", "grow the file system on /dev/vda3"]),
        (root(9900 * MIB, MIB, 900 * MIB), ["grow the file system on /dev/vda3"]),
        (root(9900 * MIB, MIB, 9900 * MIB), []),
        (root(900 * MIB, 9000 * MIB, None), ["grow partition 3 of /dev/vda"]),
        (Condition(False, None), ["make SSH host keys"]),
        (Condition(True, None), []),
    ],
)
def test_a_boot_looks_after_what_is_missing_and_nothing_else(condition: Condition, wanted: list[str]) -> None:
    assert [str(action) for action in upkeep(condition)] == wanted
