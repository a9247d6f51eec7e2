"""Addresses inside the tunnels. Pure.

A gateway has one IPv4 network for all of its routers, cut into blocks of 16 addresses. The first block is the gateway's
own, and its first host is the gateway. Each router has a block of its own, and each of its tunnels one address there:
an address tells the gateway which router and link a packet comes from.

It may have an IPv6 prefix besides, cut into one for each router's LAN: devices keep their addresses when their packets
go through the default tunnel. The first one is not assigned, since the gateway may have it itself.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

BLOCK = 28
"""Length of the prefix of a router's block."""

LAN = 64
"""Length of the IPv6 prefix of a LAN, where devices make their own addresses (RFC 4291 section 2.5.1)."""

GLOBAL, PRIVATE = IPv6Network("2000::/3"), IPv6Network("fd00::/8")
"""Where such prefixes are: global unicast (RFC 4291 section 2.4), and unique local addresses (RFC 4193 section 3.1),
which need translation."""

DEFAULT_SLOT = 0
"""The slot of the default tunnel, for traffic that is not bonded; it may use any link."""

LINKS = range(1, 9)
"""Slots of the tunnels that are bound to one link each, in the order of the router's settings."""

SLOTS = (DEFAULT_SLOT, *LINKS)


def gateway(network: IPv4Network) -> IPv4Address:
    """The gateway's address in its ``network``."""
    return network[1]


def max_routers(network: IPv4Network) -> int:
    """How many routers fit into ``network``."""
    return int(2 ** (BLOCK - network.prefixlen)) - 1


def block_of(network: IPv4Network, number: int) -> IPv4Network:
    """The block of the router with this ``number``, from 1; raises ValueError if there is none."""
    if not 1 <= number <= max_routers(network):
        raise ValueError(f"no block {number} in {network}")
    return IPv4Network((int(network.network_address) + number * 2 ** (32 - BLOCK), BLOCK))


def tunnel_address(block: IPv4Network, slot: int) -> IPv4Address:
    """The address of the tunnel in ``slot`` of a router's block."""
    return block[slot + 1]


def prefix_of(network: IPv6Network | None, number: int) -> IPv6Network | None:
    """The prefix of the LAN of the router with this ``number``; None without a ``network``, or if that has no more."""
    if network is None or not 1 <= number < 2 ** (LAN - network.prefixlen):
        return None
    return IPv6Network((int(network.network_address) + (number << (128 - LAN)), LAN))


def lan_address(prefix: IPv6Network) -> IPv6Address:
    """The router's own address in its LAN."""
    return prefix[1]


def default_tunnel_address(prefix: IPv6Network) -> IPv6Address:
    """The address of a router's default tunnel, which is the router's own IPv6 address."""
    return prefix[2]
