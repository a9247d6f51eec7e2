"""By which numbers this daemon knows what it made, also after it was killed.

Rules and routes carry a protocol number, which the kernel keeps for whoever made them (rtnetlink(7), ip-rule(8)).
Endpoints carry none: which of them are ours is written down before they are made (memory.py).
"""

from router.observed import Route, Rule

PROTOCOL = 84
"""Of rules and routes; nobody else's in /etc/iproute2/rt_protos and in linux/rtnetlink.h."""

RULES = 8400
"""Priority of our rules: after the table local, before main and before what is added without a priority."""

TABLES = range(8401, 8409)
"""A routing table for each link, as it stands in the settings file."""

REFUSED = 8409
"""The table for what has an address of a prefix that leads to no link any more: back to the LAN, whose rules refuse it.

An unreachable route would do, but its ICMPv6 error is lost on a connection that has begun (RFC 5927 section 4.1).
"""

BEST = 8400
"""The table with the default routes of all links that work, by rank: the way out beside the tunnels."""

TUNNEL_TABLES = range(8411, 8419)
"""A routing table for each link's tunnel: what has the tunnel's address leaves by it."""

EVERYTHING_ELSE_TABLE = 8410
"""The table of the tunnel for everything else, for the same purpose."""

BY_TUNNEL = 0x8410
"""The kind of netfilter mark of what a tunnel sends, with the place of its link added: it leaves by no other link.

What a by-pass list lets past has another kind (BY_LINK of tributary/fwmarks.py), and falls back to the best link.
"""

OF_A_KIND = 0xFFFFFFF0
"""The bits that tell the kinds of marks apart."""

TUNNELS_RULES, TUNNELS_END, LINKS_RULES, LINKS_END = 8391, 8392, 8393, 8394
"""Priorities of the rules for marks: before those for addresses, since a tunnel's packets have a link's address, which
may be that of a link which has died meanwhile."""

MAIN = 254
METRICS = range(1, 10)
"""Of our routes in the table main, by rank: less than those of any DHCP client, 0 alone is less. The last one is behind
all links."""

TABLE_METRIC = 1
"""In our tables; said, since a kernel that is told none puts 0 for IPv4 and 1024 for IPv6."""

SHAPED = "tributary-in"
"""What the names of the devices begin with through which packets go that come in over a link with a rate."""

NUMBERS = range(128, 255)
"""Ids of endpoints: high ones, which nobody types."""

MOST_ENDPOINTS = 8
"""MPTCP_PM_ADDR_MAX of net/mptcp/protocol.h."""


_PRIORITIES = (TUNNELS_RULES, TUNNELS_END, LINKS_RULES, LINKS_END, RULES)
_TABLES = (BEST, *TABLES, REFUSED, EVERYTHING_ELSE_TABLE, *TUNNEL_TABLES)


def is_our_rule(rule: Rule) -> bool:
    """Whether this daemon made it, or one that was killed."""
    return rule.protocol == PROTOCOL and rule.priority in _PRIORITIES


def is_our_route(route: Route) -> bool:
    """Whether this daemon made it, or one that was killed."""
    if route.protocol != PROTOCOL:
        return False
    return route.table in _TABLES or (route.table == MAIN and route.metric in METRICS)
