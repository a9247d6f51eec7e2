"""The kinds of values on the card: each reads what stands in the file or says what is accepted."""

import ipaddress
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface
from typing import Annotated, TypeVar

from pydantic import PlainValidator

from image.firstboot import public_key
from squid.targets import inside_private
from tributary.settings.hosts import CONVERT_PORT, Address, Network, Target, is_of_a_host
from tributary.settings.values import accepting, as_text, matching, or_none, require

T = TypeVar("T")
HostAddress = IPv4Interface | IPv6Interface
Contradiction = tuple[str, object, str]
"""A key that does not go with others, its value, and what is accepted instead."""

KEY_DIGITS = 64
"""A Wi-Fi's pre-shared key in hexadecimal; passphrases are shorter."""

HOSTNAME = "1 to 63 of a-z, 0-9 and -, not at an end, such as 'tributary-attic'"
PASSWORD_HASH = (
    "a hash as `mkpasswd --method=yescrypt` prints it, beginning with $y$ (yescrypt) or $6$ (sha512); never a password"
)
ADMINS = "networks without host bits, such as '198.51.100.0/24' or '2001:db8::/32'"
COUNTRY = "the two capital letters of a country (ISO 3166), such as 'DE'"
SSID = "the network's name, 1 to 32 bytes"
PASSPHRASE = "8 to 63 letters, digits and signs of ASCII, or the key itself as 64 of 0-9 and a-f"
WIRELESS = "the name of a wireless interface, such as 'wlan0'"
INTERFACE = "the name of a network interface, such as 'end0'"
PATTERN = "the name of a network interface, such as 'wlan0'; * stands for any characters, such as 'enx*'"
DRIVER = "the name of a driver as `ethtool -i` shows it, such as 'cdc_ether'; * stands for any characters"
BUS = (
    "where it is plugged in as bus-info of `ethtool -i` shows it, such as 'usb-0000:01:00.0-1.2'; * stands for any"
    " characters"
)
MAC = "a MAC address, such as '02:00:5e:10:00:01'"
HOST_ADDRESSES = "one address with its prefix length, such as '192.168.1.5/24', or a list of them"
ADDRESSES = "one IPv4 or IPv6 address, such as '192.168.1.1', or a list of them"
LAN_ADDRESS = (
    "a private IPv4 address of this box with the LAN's prefix length, 8 to 30, such as '192.168.77.1/24', that is"
    " neither the first nor the last of its network"
)
DHCP_RANGE = (
    "two addresses of the LAN, the first and the last to give out, such as ['192.168.77.100', '192.168.77.199'],"
    " without the LAN's own address; [] gives out none"
)
GATEWAY = (
    f"an address, or an address and a port (without: {CONVERT_PORT}), such as '203.0.113.5' or '[2001:db8::5]:5124'; no"
    " name"
)


def _ssid(value: object) -> str:
    text = as_text(value)
    require(1 <= len(text.encode()) <= 32)
    return text


def _host_address(value: object) -> HostAddress:
    text = as_text(value)
    require("/" in text and "%" not in text)
    found = ipaddress.ip_interface(text)
    network = found.network
    ends = {network.network_address, network.broadcast_address} if network.num_addresses > 2 else set()
    require(is_of_a_host(found.ip) and found.ip not in ends)
    return found


def _address(value: object) -> Address:
    address = ipaddress.ip_address(as_text(value))
    require(is_of_a_host(address))
    return address


def _lan_address(value: object) -> IPv4Interface:
    found = _host_address(value)
    require(isinstance(found, IPv4Interface) and inside_private(found.network) and found.network.prefixlen <= 30)
    return IPv4Interface(found)


def _dhcp_range(value: object) -> tuple[IPv4Address, ...]:
    require(isinstance(value, (list, tuple)))
    found = tuple(IPv4Address(as_text(each)) for each in value)  # type: ignore[attr-defined]
    require(len(found) in (0, 2) and found == tuple(sorted(found)))
    return found


def _several(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    def read_all(value: object) -> tuple[T, ...]:
        return tuple(read(each) for each in (value if isinstance(value, (list, tuple)) else [value]))

    return read_all


# libxcrypt's crypt(5) has these forms.
_YESCRYPT = r"\$y\$[./A-Za-z0-9]+\$[./A-Za-z0-9]{0,86}\$[./A-Za-z0-9]{43}"
_SHA512 = r"\$6\$(rounds=[1-9][0-9]+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}"

Hostname = Annotated[str, matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", HOSTNAME)]
AnyNetwork = Annotated[Network, accepting(ADMINS, lambda value: ipaddress.ip_network(as_text(value)))]
PublicKey = Annotated[str, PlainValidator(public_key.checked)]
PasswordHash = Annotated[str | None, matching(f"{_YESCRYPT}|{_SHA512}", PASSWORD_HASH)]
Country = Annotated[str, matching(r"[A-Z]{2}", COUNTRY)]
Ssid = Annotated[str, accepting(SSID, _ssid)]
Passphrase = Annotated[str, matching(r"[ -~]{8,63}|[0-9a-f]{64}", PASSPHRASE)]
# Without -, which is a slash in the name of a unit's instance (systemd.unit(5)).
Wireless = Annotated[str | None, matching(r"[A-Za-z0-9][A-Za-z0-9._]{0,14}", WIRELESS)]
Interface = Annotated[str, matching(_NAME, INTERFACE)]
Pattern = Annotated[str | None, matching(r"[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,14}", PATTERN)]
Driver = Annotated[str | None, matching(r"[A-Za-z0-9_*?-]{1,40}", DRIVER)]
Bus = Annotated[str | None, matching(r"[A-Za-z0-9_.:*?-]{1,60}", BUS)]
Mac = Annotated[str | None, matching(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", MAC)]
HostAddresses = Annotated[tuple[HostAddress, ...], accepting(HOST_ADDRESSES, _several(_host_address))]
Addresses = Annotated[tuple[Address, ...], accepting(ADDRESSES, _several(_address))]
LanAddress = Annotated[IPv4Interface, accepting(LAN_ADDRESS, _lan_address)]
DhcpRange = Annotated[tuple[IPv4Address, ...] | None, accepting(DHCP_RANGE, or_none(_dhcp_range))]
Gateway = Annotated[
    Target | None, accepting(GATEWAY, or_none(lambda value: Target.parse(as_text(value), CONVERT_PORT)))
]
