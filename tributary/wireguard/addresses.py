"""Addresses inside the tunnels. Pure.

A gateway has one IPv4 network for all of its routers, cut into blocks of 16 addresses. The first block is the gateway's
own, and its first host is the gateway. Each router has a block of its own, and each of its tunnels one address there:
the gateway knows by an address which router and which link a packet comes from.
"""

from ipaddress import IPv4Address, IPv4Network

BLOCK = 28
"""Length of the prefix of a router's block."""

EVERYTHING_ELSE = 0
"""The place of the tunnel for what is not bonded; it may leave by any link."""

LINKS = range(1, 9)
"""Places of the tunnels that are bound to a link each, in the order of the links in the router's settings."""

PLACES = (EVERYTHING_ELSE, *LINKS)


def gateway(network: IPv4Network) -> IPv4Address:
    """The gateway's address in its ``network``."""
    return network[1]


def most_routers(network: IPv4Network) -> int:
    """How many routers have room in ``network``."""
    return int(2 ** (BLOCK - network.prefixlen)) - 1


def block_of(network: IPv4Network, number: int) -> IPv4Network:
    """The block of the router with this ``number``, from 1; raises ValueError if there is none."""
    if not 1 <= number <= most_routers(network):
        raise ValueError(f"no block {number} in {network}")
    return IPv4Network((int(network.network_address) + number * 2 ** (32 - BLOCK), BLOCK))


def of_tunnel(block: IPv4Network, place: int) -> IPv4Address:
    """The address of the tunnel at ``place`` in a router's block."""
    return block[place + 1]
