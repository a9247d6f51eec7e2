"""The sources of IPv6 addresses for a home router's LAN."""

from enum import StrEnum
from ipaddress import IPv6Network
from typing import Annotated

from tributary.settings.values import accepting, or_none, reading
from tributary.wireguard import addresses

SOURCES = "'gateway', 'link', 'translated' or 'off'"
PRIVATE = "a private IPv6 network of length 64, with ten digits of your own behind fd, such as 'fd12:3456:789a:1::/64'"


class LanIpv6(StrEnum):
    """From the gateway, from the links' providers, by translation, or none."""

    GATEWAY = "gateway"
    LINK = "link"
    TRANSLATED = "translated"
    OFF = "off"


def _is_private(network: IPv6Network) -> bool:
    return network.prefixlen == addresses.LAN and network.subnet_of(addresses.PRIVATE)


_READ = reading(IPv6Network, IPv6Network, _is_private)
PrivatePrefix = Annotated[IPv6Network | None, accepting(PRIVATE, or_none(_READ))]
