"""Which addresses a client may never reach through the proxy, and which only if the operator says so.

The documentation ranges (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32) are not here on purpose: nothing
answers there on the Internet, and the testbed's servers live in them.
"""

import ipaddress
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# What no setting opens. The IPv6 forms that carry an IPv4 address inside are refused whole: what a translator or relay
# behind them makes of the address cannot be seen from here.
NEVER: dict[str, str] = {
    "0.0.0.0/8": "this network; Linux connects 0.0.0.0 to itself (RFC 1122 section 3.2.1.3)",
    "127.0.0.0/8": "loopback (RFC 1122 section 3.2.1.3)",
    "169.254.0.0/16": "link-local, and the metadata service of most clouds (RFC 3927)",
    "192.0.0.0/24": "IETF protocol assignments (RFC 6890)",
    "192.88.99.0/24": "6to4 relays (RFC 7526)",
    "100.100.100.200/32": "metadata service of one cloud, inside the range of carrier-grade NAT",
    "168.63.129.16/32": "metadata service of one cloud, at a public address",
    "224.0.0.0/4": "multicast (RFC 5771)",
    "240.0.0.0/4": "reserved, and limited broadcast (RFC 1112 section 4, RFC 919)",
    "::/96": "unspecified, loopback, IPv4-compatible (RFC 4291 section 2.5)",
    "::ffff:0:0:0/96": "IPv4-translated (RFC 7915)",
    "64:ff9b::/96": "NAT64, well-known prefix (RFC 6052)",
    "64:ff9b:1::/48": "NAT64, local use (RFC 8215)",
    "100::/64": "discard-only (RFC 6666)",
    "2001::/32": "Teredo (RFC 4380)",
    "2002::/16": "6to4 (RFC 3056)",
    "5f00::/16": "segment identifiers (RFC 9602)",
    "fd00:ec2::/32": "metadata service of one cloud, inside the unique local addresses",
    "fe80::/10": "link-local (RFC 4291 section 2.5.6)",
    "fec0::/10": "site-local (RFC 3879)",
    "ff00::/8": "multicast (RFC 4291 section 2.7)",
}

# IPv4-mapped addresses (RFC 4291 section 2.5.5.2) are for the packet filter alone: Squid holds every IPv4 address in
# this form, so that an ACL with this range would refuse all of IPv4. Squid checks the IPv4 address inside instead.
MAPPED = "::ffff:0:0/96"

# What `private_targets` may open.
PRIVATE: dict[str, str] = {
    "10.0.0.0/8": "private (RFC 1918)",
    "100.64.0.0/10": "carrier-grade NAT (RFC 6598)",
    "172.16.0.0/12": "private (RFC 1918)",
    "192.168.0.0/16": "private (RFC 1918)",
    "198.18.0.0/15": "benchmarks (RFC 2544)",
    "fc00::/7": "unique local addresses (RFC 4193)",
}


def never() -> list[Network]:
    """The ranges that no setting opens, as Squid's ACL takes them: disjoint and sorted."""
    return disjoint(ipaddress.ip_network(text) for text in NEVER)


def private(allowed: Iterable[Network]) -> list[Network]:
    """The private ranges without those that the operator ``allowed``: disjoint and sorted."""
    refused = [ipaddress.ip_network(text) for text in PRIVATE]
    for hole in allowed:
        refused = [rest for network in refused for rest in _without(network, hole)]
    return disjoint(refused)


def inside_private(network: Network) -> bool:
    """Whether ``network`` lies inside one of the private ranges."""
    return any(_contains(ipaddress.ip_network(text), network) for text in PRIVATE)


def disjoint(networks: Iterable[Network]) -> list[Network]:
    """The same addresses in the fewest networks, IPv4 first; Squid warns of networks that overlap."""
    every = list(networks)
    four = ipaddress.collapse_addresses(n for n in every if isinstance(n, IPv4Network))
    six = ipaddress.collapse_addresses(n for n in every if isinstance(n, IPv6Network))
    return [*four, *six]


def _without(network: Network, hole: Network) -> list[Network]:
    if _contains(hole, network):
        return []
    if isinstance(network, IPv4Network) and isinstance(hole, IPv4Network) and hole.subnet_of(network):
        return list(network.address_exclude(hole))
    if isinstance(network, IPv6Network) and isinstance(hole, IPv6Network) and hole.subnet_of(network):
        return list(network.address_exclude(hole))
    return [network]


def _contains(outer: Network, inner: Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network):
        return inner.subnet_of(outer)
    return False
