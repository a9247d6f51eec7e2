"""IPv6 of a LAN with private addresses: the LAN's prefix is mapped to a link's delegated prefix, one to one. Pure.

It is NPTv6 (RFC 6296) by the kernel's connection tracking (NETMAP of nf_nat_core.c): the lower half of an address
stays. A flow keeps the link on which it began, by its connection mark, for which the daemon has rules. When that link
is gone the flow is reset at once, since the other end would not know it by another link's prefix.
"""

from dataclasses import dataclass
from ipaddress import IPv6Network

from router.lan.own_table import chain, table
from tributary.fwmarks import BY_LINK
from tributary.kernel import nft

TABLE = "tributary-translated"


@dataclass(frozen=True)
class PrefixMapping:
    """A link with a prefix: its interface's name, its slot in the settings, and the prefix."""

    interface: str
    slot: int
    prefix: IPv6Network


@dataclass(frozen=True)
class PrefixTranslation:
    """What the LAN's prefix becomes on each working link."""

    lan_interface: str
    lan_prefix: IPv6Network
    mappings: tuple[PrefixMapping, ...]


UNKNOWN = PrefixTranslation("", IPv6Network("::/0"), ())
"""The translation of an earlier run."""

DELETE_TABLE = nft.delete(f"inet {TABLE}")


def rules(translation: PrefixTranslation) -> str:
    """The table, which replaces an older one."""
    inside, lan, mappings = translation.lan_prefix, translation.lan_interface, translation.mappings
    out = [
        f'oifname "{each.interface}" ip6 saddr {inside} ct mark set {_mark(each)} snat ip6 prefix to {each.prefix}'
        for each in mappings
    ]
    back = [
        f'iifname "{each.interface}" ip6 daddr {each.prefix} fib daddr type != local ct mark set {_mark(each)}'
        f" dnat ip6 prefix to {inside}"
        for each in mappings
    ]
    known = ", ".join(f'"{name}"' for name in (lan, *(each.interface for each in mappings)))
    begun = "ct status snat ct direction original"
    stray = [f'oifname "{each.interface}" {begun} ct reply ip6 daddr != {each.prefix} goto refuse' for each in mappings]
    mine = f'iifname "{lan}" ip6 saddr {inside}'
    return DELETE_TABLE + table(
        f"inet {TABLE}",
        chain("leave", "type nat hook postrouting priority srcnat; policy accept;", out),
        chain("come", "type nat hook prerouting priority dstnat; policy accept;", back),
        chain(
            "forward",
            "type filter hook forward priority filter; policy accept;",
            [f"{mine} oifname != {{ {known} }} goto refuse", *(f"{mine} {each}" for each in stray)],
        ),
        chain("refuse", "", ["meta l4proto tcp reject with tcp reset", "reject with icmpv6 admin-prohibited"]),
    )


def _mark(mapping: PrefixMapping) -> str:
    return f"{BY_LINK + mapping.slot + 1:#x}"
