"""What may be led past a home router's tunnels while it runs."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network

from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import Network
from tributary.wireguard.addresses import GLOBAL

ACCEPTED = (
    "a network of the Internet without host bits, such as '198.51.100.0/24', or a device's MAC address, such as"
    " '02:00:5e:10:00:01'"
)

_ELSEWHERE = [
    IPv4Network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
        *("169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"),
    )
]
"""Private, shared, of this host or link, multicast, reserved (RFC 6890): never bonded either."""


def is_device(text: str) -> bool:
    """Whether it is a MAC address in small letters."""
    return re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", text, re.ASCII) is not None


def parsed(text: str) -> str:
    """What is by-passed, as the daemon writes it; raises CommandError, exit 64."""
    written = text.strip().lower()
    if is_device(written):
        return written
    try:
        network = ip_network("" if "%" in written else written)  # no zones, in which any text may be
        if _is_of_the_internet(network):
            return str(network)
    except ValueError:
        pass
    raise CommandError(Exit.USAGE, f"{text[:60]!r}: accepted: {ACCEPTED}")


def _is_of_the_internet(network: Network) -> bool:
    if isinstance(network, IPv6Network):
        return network.subnet_of(GLOBAL)
    return not any(network.overlaps(each) for each in _ELSEWHERE)
