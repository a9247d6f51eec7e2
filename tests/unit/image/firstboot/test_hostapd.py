"""hostapd's configuration of a card's access point."""

import pytest

from image.firstboot.access_point import AccessPoint
from image.firstboot.hostapd import configuration

GIVEN = {"country": "DE", "ssid": "IEEE", "passphrase": "password"}


def lines(**more: object) -> list[str]:
    return configuration(AccessPoint.model_validate({**GIVEN, **more}), "wlan0", None).splitlines()


def test_it_holds_the_key_of_the_standard_s_test_vector_and_not_the_passphrase() -> None:
    found = lines()
    assert "wpa_psk=f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e" in found
    assert "wpa_key_mgmt=WPA-PSK" in found
    assert not [line for line in found if "password" in line or line.startswith(("ieee80211w", "sae_"))]


def test_wpa3_is_made_of_the_passphrase() -> None:
    found = lines(wpa3=True)
    assert {"wpa_key_mgmt=WPA-PSK SAE", "ieee80211w=1", "sae_require_mfp=1", "wpa_passphrase=password"} <= set(found)
    assert not [line for line in found if line.startswith("wpa_psk")]


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
