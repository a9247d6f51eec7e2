"""What each device of the LAN sends and receives, by counters of nft(8) for each address. Pure.

All that a device sends to the box or through it is counted as it comes in, together with its MAC address, and all that
it gets as it goes out. Several addresses of a device are put together by its MAC address.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from router.lan.own_table import chain, table
from tributary.settings.privacy import Privacy, shortened

Answer = dict[str, Any]
TABLE = "inet tributary-devices"

_MOST = 512
"""Addresses of each IP version: a LAN that has more fills the sets, and the rest is not counted."""
_SILENCE = "1d"
"""After so long without a packet an address is forgotten."""
_LONGEST_NAME = 63
"""Of a DNS label (RFC 1035 section 2.3.4)."""

_NUMBER = 4
"""Bytes of a device's number."""

_TYPES = {"4": "ipv4_addr", "6": "ipv6_addr"}
_HEADERS = {"4": "ip", "6": "ip6"}


def rules(lan: str) -> str:
    """The table for the LAN's interface."""
    sets = [
        f"    set {name}{version} {{ type {key}; flags dynamic,timeout; timeout {_SILENCE}; size {_MOST}; counter; }}"
        for version, address in _TYPES.items()
        for name, key in (("sent", f"ether_addr . {address}"), ("received", address))
    ]
    sent = [f'iifname "{lan}" update @sent{each} {{ ether saddr . {_HEADERS[each]} saddr }}' for each in _TYPES]
    # Established: whoever scans the LAN from outside fills no set with addresses that no device has.
    received = [
        f'oifname "{lan}" ct state established update @received{each} {{ {_HEADERS[each]} daddr }}' for each in _TYPES
    ]
    return table(
        TABLE,
        *sets,
        chain("from_devices", "type filter hook prerouting priority raw; policy accept;", sent),
        chain("to_devices", "type filter hook postrouting priority mangle; policy accept;", received),
    )


@dataclass
class _Device:
    sent: int = 0
    received: int = 0
    addresses: list[str] = field(default_factory=list)


def devices(counted: Mapping[str, Mapping[Any, int]], names: Mapping[str, str]) -> list[Answer]:
    """The API's documents of devices by their MAC addresses, of which ``names`` are some's.

    ``counted`` has bytes as the device sees them, a document as the router does.
    """
    found: defaultdict[str, _Device] = defaultdict(_Device)
    for version in _TYPES:
        received = dict(counted[f"received{version}"])
        for (mac, address), sent in counted[f"sent{version}"].items():
            device = found[mac]
            device.sent += sent
            # An address that has moved to another device counts for the one that is listed first.
            device.received += received.pop(address, 0)
            if not (ip_address(address).is_unspecified or ip_address(address).is_link_local):
                device.addresses.append(address)
    return [
        {
            "mac": mac,
            "name": names.get(mac),
            "addresses": sorted(device.addresses, key=lambda each: (":" in each, each)),
            "sent": device.received,
            "received": device.sent,
        }
        for mac, device in sorted(found.items())
    ]


def shown(found: Iterable[Answer], privacy: Privacy, secret: bytes) -> list[Answer]:
    """What of devices is shown: unless all of it, no names, and numbers in place of MAC addresses, by this secret."""
    return [each if privacy == "full" else _hidden(each, privacy, secret) for each in found]


def _hidden(device: Answer, privacy: Privacy, secret: bytes) -> Answer:
    number = hashlib.blake2s(device["mac"].encode(), digest_size=_NUMBER, key=secret).hexdigest()
    seen = device["addresses"] if privacy == "network" else ()
    networks = dict.fromkeys(shortened(address, privacy) for address in seen)
    return {**device, "mac": number, "name": None, "addresses": list(networks)}


def names(leases: str) -> dict[str, str]:
    """The names that devices gave themselves, by MAC address: of the leases that dnsmasq(8) has handed out."""
    found = {}
    for line in leases.splitlines():
        words = line.split()
        # Expiry, MAC address, address, name or *, client id. Lines of DHCPv6 have no MAC address there.
        if len(words) == 5 and len(words[1]) == len("02:00:5e:10:00:01") and words[3] != "*":
            found[words[1].lower()] = words[3][:_LONGEST_NAME]
    return found
