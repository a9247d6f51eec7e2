"""IPv6 of a LAN whose addresses are private: a link's delegated prefix in the place of the LAN's, one to one. Pure.

It is RFC 6296's idea with the kernel's connection tracking (NETMAP of nf_nat_core.c): the lower half of an address
stays. A flow keeps the link that it has begun by, by its connection mark, for which the daemon has rules; when that
link is gone it is told so at once, since the other end would not know it by another link's prefix.
"""

from dataclasses import dataclass
from ipaddress import IPv6Network

from tributary.fwmarks import BY_LINK

TABLE = "tributary-translated"


@dataclass(frozen=True)
class Side:
    """A link with a prefix: its interface's name, its place in the settings, and the prefix."""

    interface: str
    place: int
    prefix: IPv6Network


@dataclass(frozen=True)
class Translation:
    """What the LAN's prefix becomes at each link that works."""

    lan: str
    inside: IPv6Network
    sides: tuple[Side, ...]


UNKNOWN = Translation("", IPv6Network("::/0"), ())
"""That of a daemon that was killed."""

NOTHING = f"table inet {TABLE}\ndelete table inet {TABLE}\n"
"""Rules for nft(8) that take the table away, also one that is not there."""


def rules(translation: Translation) -> str:
    """The table, in the place of an older one."""
    inside, lan, sides = translation.inside, translation.lan, translation.sides
    out = [
        f'oifname "{each.interface}" ip6 saddr {inside} ct mark set {_mark(each)} snat ip6 prefix to {each.prefix}'
        for each in sides
    ]
    back = [
        f'iifname "{each.interface}" ip6 daddr {each.prefix} fib daddr type != local ct mark set {_mark(each)}'
        f" dnat ip6 prefix to {inside}"
        for each in sides
    ]
    known = ", ".join(f'"{name}"' for name in (lan, *(each.interface for each in sides)))
    begun = "ct status snat ct direction original"
    stray = [f'oifname "{each.interface}" {begun} ct reply ip6 daddr != {each.prefix} goto refuse' for each in sides]
    mine = f'iifname "{lan}" ip6 saddr {inside}'
    return NOTHING + "\n".join(
        (
            f"table inet {TABLE} {{",
            *_chain("leave", "type nat hook postrouting priority srcnat; policy accept;", out),
            *_chain("come", "type nat hook prerouting priority dstnat; policy accept;", back),
            *_chain(
                "forward",
                "type filter hook forward priority filter; policy accept;",
                [f"{mine} oifname != {{ {known} }} goto refuse", *(f"{mine} {each}" for each in stray)],
            ),
            *_chain("refuse", "", ["meta l4proto tcp reject with tcp reset", "reject with icmpv6 admin-prohibited"]),
            "}\n",
        )
    )


def _mark(side: Side) -> str:
    return f"{BY_LINK + side.place + 1:#x}"


def _chain(name: str, hook: str, lines: list[str]) -> list[str]:
    return [f"    chain {name} {{", *(f"        {line}" for line in ([hook] if hook else []) + lines), "    }"]
