"""Addresses inside the tunnels. Pure.

A gateway has one IPv4 network for all of its routers, cut into blocks of 16 addresses. The first block is the gateway's
own, and its first host is the gateway. Each router has a block of its own, and each of its tunnels one address there:
the gateway knows by an address which router and which link a packet comes from.

It may have an IPv6 prefix besides, cut into one for each router's LAN: devices keep their addresses there when they go
through the tunnel for everything else. The first one is not given out, since the gateway may be in it itself.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

BLOCK = 28
"""Length of the prefix of a router's block."""

LAN = 64
"""Length of the IPv6 prefix of a LAN, where devices make their own addresses (RFC 4291 section 2.5.1)."""

GLOBAL, PRIVATE = IPv6Network("2000::/3"), IPv6Network("fd00::/8")
"""Where such prefixes are: what IANA gives out to the Internet (RFC 4291 section 2.4), and what anybody may take for
himself (RFC 4193 section 3.1), with which nobody gets out untranslated."""

DEFAULT_SLOT = 0
"""The place of the tunnel for what is not bonded; it may leave by any link."""

LINKS = range(1, 9)
"""Places of the tunnels that are bound to a link each, in the order of the links in the router's settings."""

SLOTS = (DEFAULT_SLOT, *LINKS)


def gateway(network: IPv4Network) -> IPv4Address:
    """The gateway's address in its ``network``."""
    return network[1]


def max_routers(network: IPv4Network) -> int:
    """How many routers have room in ``network``."""
    return int(2 ** (BLOCK - network.prefixlen)) - 1


def block_of(network: IPv4Network, number: int) -> IPv4Network:
    """The block of the router with this ``number``, from 1; raises ValueError if there is none."""
    if not 1 <= number <= max_routers(network):
        raise ValueError(f"no block {number} in {network}")
    return IPv4Network((int(network.network_address) + number * 2 ** (32 - BLOCK), BLOCK))


def tunnel_address(block: IPv4Network, place: int) -> IPv4Address:
    """The address of the tunnel at ``place`` in a router's block."""
    return block[place + 1]


def prefix_of(network: IPv6Network, number: int) -> IPv6Network | None:
    """The prefix of the LAN of the router with this ``number``; None for those that ``network`` has no more for."""
    if not 1 <= number < 2 ** (LAN - network.prefixlen):
        return None
    return IPv6Network((int(network.network_address) + (number << (128 - LAN)), LAN))


def lan_address(prefix: IPv6Network) -> IPv6Address:
    """The router's own address in its LAN."""
    return prefix[1]


def default_tunnel_address(prefix: IPv6Network) -> IPv6Address:
    """The address of a router's tunnel for everything else, by which the router itself uses IPv6."""
    return prefix[2]
