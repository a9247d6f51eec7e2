"""hostapd's configuration of a card's access point, and keys by the test vectors of IEEE 802.11i, annex H.4.3."""

import pytest

from image.firstboot import report, wifi
from image.firstboot.access_point import AccessPoint
from image.firstboot.reading import read
from image.firstboot.settings import Role, Wifi
from image.firstboot.wifi import configuration
from tests.unit.image.firstboot.cards import HOME, WIFI
from tests.unit.image.firstboot.systems import facts

JOINED = f'{WIFI}passphrase = "12345678"\n'
GIVEN = {"country": "DE", "ssid": "IEEE", "passphrase": "password"}


@pytest.mark.parametrize(
    ("card", "missing"),
    [
        (HOME, ["wan.dsl"]),
        (HOME + JOINED, []),
        (f'{HOME}{JOINED}interface = "wlan0"', []),
        (f'{HOME}{JOINED}interface = "wlan1"', ["wan.dsl"]),
        (HOME.replace("wlan0", "wlx*").replace("enx*", "wwan0"), ["wan.dsl"]),
        (HOME.replace("wlan0", "end1"), []),
        (HOME.replace('interface = "wlan0"', 'driver = "cdc_ether"'), []),
    ],
)
def test_of_a_wireless_link_without_a_network_it_is_said_what_is_missing(card: str, missing: list[str]) -> None:
    for role, found in ((Role.ROUTER, missing), (Role.GATEWAY, [])):
        steps = report.next_steps(read(card.encode(), role), facts(role))
        assert [step.partition(" joins no network: add [wifi]")[0] for step in steps if " joins no " in step] == found


def lines(**more: object) -> list[str]:
    return configuration(AccessPoint.model_validate({**GIVEN, **more}), "wlan0", None).splitlines()


def test_a_name_of_any_signs_stays_one_line() -> None:
    assert "ssid2=610a7d" in lines(ssid="a\n}")


@pytest.mark.parametrize(
    ("channel", "width", "said"),
    [
        (6, 20, {"hw_mode=g"}),
        (36, 20, {"hw_mode=a", "ieee80211ac=1", "vht_oper_chwidth=0"}),
        (36, 40, {"ht_capab=[HT40+]", "vht_oper_chwidth=0"}),
        (40, 40, {"ht_capab=[HT40-]", "vht_oper_chwidth=0"}),
        (48, 80, {"ht_capab=[HT40-]", "vht_oper_chwidth=1", "vht_oper_centr_freq_seg0_idx=42"}),
        (149, 80, {"ht_capab=[HT40+]", "vht_oper_chwidth=1", "vht_oper_centr_freq_seg0_idx=155"}),
    ],
)
def test_a_wide_channel_is_around_the_one_that_is_named(channel: int, width: int, said: set[str]) -> None:
    found = lines(channel=channel, width=width)
    about = {line for line in found if line.startswith(("hw_mode", "ht_", "vht_", "ieee80211ac"))}
    assert said <= about
    assert (about == said) or width == 20 or about - said <= {"hw_mode=a", "ieee80211ac=1"}


@pytest.mark.parametrize(
    ("passphrase", "ssid", "key"),
    [
        ("password", "IEEE", "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"),
        ("ThisIsAPassword", "ThisIsASSID", "0dc0d6eb90555ed6419756b9a15ec3e3209b63df707dd508d14581f8982721af"),
        ("a" * 32, "Z" * 32, "becb93866bb8c3832cb777c2f559807c8c59afcb6eae734885001300a981cc62"),
    ],
)
def test_the_key_is_that_of_the_standard_s_test_vectors(passphrase: str, ssid: str, key: str) -> None:
    assert wifi.key(ssid, passphrase) == key


def test_a_passphrase_that_is_the_key_stays_as_it_is() -> None:
    assert wifi.key("any", "ab" * 32) == "ab" * 32


def test_the_configuration_holds_the_key_and_not_the_passphrase() -> None:
    said = wifi.joining(Wifi.model_validate({"country": "DE", "ssid": 'a"\n}', "passphrase": "one long passphrase"}))
    assert "one long" not in said
    assert "ssid=61220a7d\n" in said
    assert said.count("}") == 1
