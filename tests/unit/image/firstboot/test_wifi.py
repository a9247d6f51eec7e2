"""Pre-shared keys, by the test vectors of IEEE 802.11i, annex H.4.3."""

import pytest

from image.firstboot import wifi
from image.firstboot.settings import Wifi


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
    said = wifi.configuration(
        Wifi.model_validate({"country": "DE", "ssid": 'a"\n}', "passphrase": "one long passphrase"})
    )
    assert "one long" not in said
    assert "ssid=61220a7d\n" in said
    assert said.count("}") == 1
