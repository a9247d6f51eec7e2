"""What a plan says beside its files: units by role, what goes again, what an image lacks."""

import re
import tomllib
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

import pytest

from image.firstboot.actions import DisableUnit, EnableUnit, OnMachine, RemoveFile, SetPassword, WriteFile
from image.firstboot.apply import System, commands
from image.firstboot.facts import Facts
from image.firstboot.first_start import PLACE
from image.firstboot.settings import Role
from tests.refusals import command_error
from tests.unit.image.firstboot.cards import ACCESS_POINT, HOME, LOGIN, MODEM
from tests.unit.image.firstboot.systems import UNITS, YESCRYPT, facts, files_of, planned, texts
from tributary.settings.errors import Exit

GATEWAY = facts()
LAN = '[lan]\ninterface = "end0"\naddress = "10.0.0.1/24"\n'
WIFI = '[wifi]\ncountry = "DE"\nssid = "a"\npassphrase = "12345678"\n'


def units(text: str, given: Facts | None = None) -> dict[str, bool]:
    """By name, whether each is enabled; those that end come first."""
    found = [each for each in planned(text, given) if isinstance(each, (EnableUnit, DisableUnit))]
    assert found == sorted(found, key=lambda each: isinstance(each, EnableUnit))
    return {each.unit: isinstance(each, EnableUnit) for each in found}


@pytest.mark.parametrize("interface", ["end1", "end*"])
@pytest.mark.parametrize(("said", "asks"), [('dns = ["9.9.9.9"]', True), ('address = "198.51.100.10/29"', False)])
def test_a_link_with_a_table_of_its_interface_is_asked_for_a_prefix(interface: str, said: str, asks: bool) -> None:
    home = HOME.replace("end0", "eth0").replace("wlan0", interface)
    text = f'{home}ipv6 = "link"\n[network.end1]\n{said}\n'
    (file,) = (each for path, each in texts(text).items() if path.endswith("-end1.network"))
    assert ("DHCPPrefixDelegation" in file or "PrefixDelegationHint" in file) is asks


def test_the_first_start_page_finds_its_port_by_dhcp_beside_interfaces_with_settings_of_their_own() -> None:
    text = '[network.end1]\naddress = "198.51.100.10/29"\ngateway = "198.51.100.9"\n'
    files = [Path(path).name for path in sorted(texts(text)) if path.endswith(".network")]
    assert files == ["30-tributary-end1.network", "31-tributary-ethernet.network"]
    for other in ("first_start_page = false\n" + text, 'role = "gateway"\n' + text):
        assert "/etc/systemd/network/31-tributary-ethernet.network" not in texts(other)


def done(text: str, news: Set[str]) -> dict[str, str]:
    """For each unit of a home router that runs, what systemctl is told where the files ``news`` are new."""
    return started([each for each in planned(text + WIFI) if isinstance(each, EnableUnit)], news)


def started(found: Iterable[EnableUnit], news: Set[str]) -> dict[str, str]:
    """By unit, how it is started after all are known."""
    enabling, reading, *starting = commands(found, System(Path("/"), running=True), news)
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
    found = done(HOME, set(texts(HOME)))
    assert {found[f"tributary-{part}.service"] for part in ("router", "converter", "lan")} == {"reload-or-restart"}


@pytest.mark.parametrize(
    ("card", "pages"), [("", ["first-start"]), (LAN, ["first-start"]), ("first_start_page = false", [])]
)
def test_a_home_router_not_set_up_runs_at_most_the_page_behind_its_firewall(card: str, pages: list[str]) -> None:
    running = [f"tributary-{part}.service" for part in ("firewall", *pages)]
    assert [unit for unit, enabled in units(card).items() if enabled] == running


def test_the_page_s_code_is_for_the_page_alone_and_goes_with_it() -> None:
    path = f"/{PLACE}"
    assert WriteFile(path, "abcdefgh\n", 0o600) in planned("")
    assert path not in {**texts(HOME), **texts("first_start_page = false")}
    assert RemoveFile(path) in planned(HOME, facts(Role.ROUTER, owned_files=(path,)))


def test_the_firewall_lets_the_page_in_at_the_lan_s_side_alone() -> None:
    def rules(card: str) -> str:
        return texts(card)["/etc/nftables.d/tributary-site-card.nft"]

    at = "tcp_in iifname @lan_interfaces ip daddr {} tcp dport 80 accept\n"
    assert rules("").endswith(at.format("192.168.77.1"))
    assert rules(LAN).endswith(at.format("10.0.0.1"))
    assert "dport 80" not in rules(HOME) + rules("first_start_page = false")
    assert re.findall(r"firewall (\w+) \{", rules("")) == ["admin_networks4", "admin_networks6"]


def test_the_card_s_role_counts_before_the_image_s() -> None:
    assert units('role = "router"\n' + HOME, GATEWAY)["tributary-router.service"]
    assert units('role = "gateway"\n' + HOME)["tributary-squid.service"]


def test_an_image_that_lacks_a_unit_of_the_role_is_named_and_one_that_lacks_the_other_role_s_is_fine() -> None:
    given = facts(units=frozenset(UNITS) - {"tributary-squid.service"})
    with command_error(Exit.UNAVAILABLE, "tributary-squid.service is not on this image"):
        planned("", given)
    given = facts(units=frozenset(UNITS) - {"tributary-router.service", "dnsmasq.service", "tributary-lan.service"})
    assert "tributary-router.service" not in units("", given)


def test_without_a_hash_the_user_is_locked_and_root_always_is() -> None:
    assert {SetPassword("tributary", None), SetPassword("root", None)} <= set(planned(""))
    hashed = planned(f'password_hash = "{YESCRYPT}"')
    assert {SetPassword("tributary", YESCRYPT), SetPassword("root", None)} <= set(hashed)


def test_what_was_saved_of_links_and_paths_goes_with_them_since_no_daemon_would_start() -> None:
    kept = [("/etc/tributary/router.d/use-lte.toml", "lte"), ("/etc/tributary/throttler.d/limit-link1.toml", "link1")]
    gone = [("/etc/tributary/router.d/use-old.toml", "old"), ("/etc/tributary/throttler.d/limit-link2.toml", "link2")]
    saved = (*kept, *gone)

    def removed(card: str, role: Role) -> set[str]:
        found = planned(card, facts(role, saved=saved))
        return {each.path for each in found if isinstance(each, RemoveFile)}.intersection(dict(saved))

    assert removed(HOME, Role.ROUTER) == {gone[0][0]}
    assert removed("", Role.GATEWAY) == {gone[1][0]}
    assert removed("", Role.ROUTER) == set()


def test_what_was_written_or_joined_last_time_goes_unless_the_card_still_says_so() -> None:
    given = facts(owned_files=("/etc/hostname", "/etc/systemd/network/33-tributary-old.network"))
    found = planned("", given)
    assert found[0] == RemoveFile("/etc/systemd/network/33-tributary-old.network")
    assert RemoveFile("/etc/hostname") not in found
    given = facts(owned_units=("wpa_supplicant@wlan1.service",))
    assert units("", given)["wpa_supplicant@wlan1.service"] is False
    assert units(WIFI + 'interface = "wlan1"', given)["wpa_supplicant@wlan1.service"] is True


def links(text: str) -> dict[str, Any]:
    """The links of tributary-router."""
    return dict(tomllib.loads(texts(text)["/etc/tributary/router.toml"])["wan"])


def test_a_line_by_pppoe_is_dialled_again_only_when_its_settings_change() -> None:
    text = HOME.replace("wan.dsl", "wan.my-dsl").replace("wlan0", "end1") + LOGIN.replace("dsl", "my-dsl")
    enabled = [each for each in planned(text) if isinstance(each, EnableUnit)]
    (unit,) = (each for each in enabled if each.unit == r"ppp@tributary.my\x2ddsl.service")
    assert unit.reads == ("/etc/ppp/peers/tributary.my-dsl",)
    assert set(started([unit], frozenset()).values()) == {"start"}
    assert set(started([unit], set(unit.reads)).values()) == {"restart"}


def test_a_line_by_pppoe_that_is_no_longer_on_the_card_ends_and_what_two_have_alike_is_written_once() -> None:
    text = HOME.replace("wlan0", "end1").replace("enx*", "end2") + LOGIN + LOGIN.replace("dsl", "lte")
    paths = [each.path for each in files_of(text)]
    assert len(paths) == len(set(paths)) and {f"/etc/ppp/peers/tributary.{name}" for name in ("dsl", "lte")} < {*paths}
    unit = "ppp@tributary.dsl.service"
    assert units(HOME, facts(Role.ROUTER, owned_units=(unit,)))[unit] is False


def test_the_daemon_finds_a_modem_by_what_the_card_says_of_it() -> None:
    assert links(HOME.replace("enx*", "wwan1") + MODEM)["lte"]["interface"] == "wwan1"
    by_driver = links(HOME.replace('interface = "enx*"', 'driver = "cdc_mbim"') + MODEM)["lte"]
    assert "interface" not in by_driver
    assert by_driver["driver"] == "cdc_mbim"


def test_a_lan_that_is_wireless_alone_needs_no_bridge() -> None:
    text = HOME.replace("wlan0", "end1").replace("end0", "wlan0") + ACCESS_POINT
    found = texts(text)
    assert "bridge" not in found["/etc/hostapd/wlan0.conf"]
    assert "Name=wlan0\n" in found["/etc/systemd/network/20-tributary-lan.network"]
    assert not any("bridge" in path or "port" in path for path in found)


@pytest.mark.parametrize(
    ("wireless", "named", "taken"),
    [(("wlp2s0", "wlp3s0"), "end1", "wlp2s0"), (("wlp2s0", "wlp3s0"), "wlp2s0", "wlp3s0"), ((), "end1", "wlan0")],
)
def test_an_access_point_takes_the_first_wireless_interface_that_is_no_link(
    wireless: tuple[str, ...], named: str, taken: str
) -> None:
    given = facts(Role.ROUTER, wireless=wireless)
    assert units(HOME.replace("wlan0", named) + ACCESS_POINT, given)[f"hostapd@{taken}.service"]


def test_the_first_wireless_interface_joins_where_none_is_named() -> None:
    assert "/etc/wpa_supplicant/wpa_supplicant-wlp2s0.conf" in texts(WIFI, facts(wireless=("wlp2s0", "wlp3s0")))
    assert "/etc/wpa_supplicant/wpa_supplicant-wlan0.conf" in texts(WIFI, facts(wireless=()))


def test_the_throttler_looks_at_interfaces_that_are_there_since_it_refuses_others() -> None:
    def seen(text: str, wired: tuple[str, ...]) -> list[str]:
        policy = texts(text, facts(wired=wired))["/etc/tributary/throttler.toml"]
        return [path["interface"] for path in tomllib.loads(policy)["paths"].values()]

    assert seen("", wired=("end0", "end1")) == ["end0", "end1"]
    assert seen("[network.end1]\n[network.end7]\n", wired=("end0", "end1")) == ["end1"]
    assert seen("", wired=()) == ["lo"]


def test_a_rule_that_leaves_less_open_comes_first() -> None:
    text = HOME.replace("wlan0", "w*").replace("enx*", "wlx*") + '[wan.c]\nmac = "02:00:5e:10:00:01"\n'
    found = sorted(path for path in texts(text) if "-wan-" in path)
    assert [path.rpartition("-")[2] for path in found] == ["c.network", "lte.network", "dsl.network"]
