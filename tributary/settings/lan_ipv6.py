"""The sources of IPv6 addresses for a home router's LAN."""

from enum import StrEnum
from ipaddress import IPv6Network
from typing import Annotated

from tributary.settings.values import accepting, or_none, reading, require

_PRIVATE = IPv6Network("fd00::/8")
"""Unique local addresses (RFC 4193 section 3.1)."""

PRIVATE = "a private IPv6 network of length 64, with ten digits of your own behind fd, such as 'fd12:3456:789a:1::/64'"


class LanIpv6(StrEnum):
    """From the gateway, from the links' providers, by translation, or none."""

    GATEWAY = "gateway"
    LINK = "link"
    TRANSLATED = "translated"
    OFF = "off"


def _private(value: object) -> IPv6Network:
    network = reading(IPv6Network, IPv6Network)(value)
    require(network.prefixlen == 64 and network.subnet_of(_PRIVATE))
    return network


PrivatePrefix = Annotated[IPv6Network | None, accepting(PRIVATE, or_none(_private))]
