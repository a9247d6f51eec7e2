"""A wireless network for wpa_supplicant.conf(5). Pure."""

import hashlib

from image.firstboot.settings import Wifi

_ROUNDS = 4096
_BYTES = 32


def key(ssid: str, passphrase: str) -> str:
    """The pre-shared key, 64 hexadecimal digits: PBKDF2 with HMAC-SHA1, 4096 rounds (IEEE 802.11i, annex H.4).

    A passphrase of 64 digits is that key already.
    """
    if len(passphrase) == 2 * _BYTES:
        return passphrase
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode("ascii"), ssid.encode(), _ROUNDS, _BYTES).hex()


def configuration(wifi: Wifi) -> str:
    """The text of wpa_supplicant.conf. The network's name stands in hexadecimal, since it may hold any sign."""
    return (
        "ctrl_interface=DIR=/run/wpa_supplicant GROUP=root\n"
        f"country={wifi.country}\n"
        "network={\n"
        f"\tssid={wifi.ssid.encode().hex()}\n"
        "\tscan_ssid=1\n"
        "\tkey_mgmt=WPA-PSK WPA-PSK-SHA256\n"
        f"\tpsk={key(wifi.ssid, wifi.passphrase)}\n"
        "}\n"
    )
