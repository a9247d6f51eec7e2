"""The address by which a link shows its delegated IPv6 prefix (RFC 8415 section 6.3). Pure.

systemd-networkd(8) asks for the prefix, and gives the link's own interface one address of its first /64, which ends in
this token (Token= in the section [DHCPPrefixDelegation] of systemd.network(5)). No other address ends so: it
reveals the prefix and the link.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network

TOKEN = IPv6Address("::8400:0:0:1")

_BITS = 64
"""Length of an interface identifier (RFC 4291 section 2.5.1)."""


def prefix_of(address: IPv4Address | IPv6Address) -> IPv6Network | None:
    """The /64 that ``address`` shows; None if it is any other address."""
    if address.version == 4 or int(address) & (1 << _BITS) - 1 != int(TOKEN):
        return None
    return IPv6Network((int(address) >> _BITS << _BITS, 128 - _BITS))
