"""The numbers by which this daemon recognizes what it owns in the kernel, also after a restart.

Rules and routes have a protocol number (rtnetlink(7), ip-rule(8)). Endpoints have none: the owned ones are recorded
before they are created (state/owned.py).
"""

from tributary.kernel.state import Route, Rule

PROTOCOL = 84
"""Of rules and routes; unused in /etc/iproute2/rt_protos and in linux/rtnetlink.h."""

RULE_PRIORITY = 8400
"""Priority of the rules: after the table local, before main and before rules without a priority."""

LINK_TABLES = range(8401, 8409)
"""A routing table for each link, by slot."""

REFUSED_TABLE = 8409
"""The table for packets from a prefix that leads to no link any more: back to the LAN, whose rules refuse them.

An unreachable route would do, but its ICMPv6 error is lost on a connection that has begun (RFC 5927 section 4.1).
"""

BEST_LINK_TABLE = 8400
"""The table with the default routes of all working links, by rank: the way out beside the tunnels."""

TUNNEL_TABLES = range(8411, 8419)
"""A routing table for each link's tunnel: packets from the tunnel's address leave by it."""

DEFAULT_TUNNEL_TABLE = 8410
"""The routing table of the default tunnel."""

BY_TUNNEL = 0x8410
"""The kind of netfilter mark of a tunnel's packets, with the slot of its link added: they leave by no other link.

Bypassed packets have another kind (BY_LINK of tributary/fwmarks.py), and fall back to the best link.
"""

KIND_MASK = 0xFFFFFFF0
"""The bits of a mark that are its kind."""

TUNNELS_RULES, TUNNELS_END, LINKS_RULES, LINKS_END = 8391, 8392, 8393, 8394
"""Priorities of the rules for marks: before those for addresses, since a tunnel's packets have a link's address, which
may be that of a link which is down."""

MAIN = 254
MAIN_METRICS = range(1, 10)
"""Of routes in the table main, by rank: lower than those of any DHCP client, but for 0. The last one is for the
unreachable routes behind all links."""

FIRST_METRIC = 0
"""Of the second route to the gateway inside, by the link that begins sessions in place of the best one by rank. It is
before all others there: a deletion with metric 0 means any metric, and takes the first (fib_nh_match() in
net/ipv4/fib_semantics.c)."""

TABLE_METRIC = 1
"""In other tables; explicit, since the kernel's default is 0 for IPv4 and 1024 for IPv6."""

IFB_PREFIX = "tributary-in"
"""The prefix of the names of IFB devices, which shape ingress."""

ENDPOINT_IDS = range(128, 255)
"""Ids of endpoints: high ones, which are not typed by hand."""

MAX_ENDPOINTS = 8
"""MPTCP_PM_ADDR_MAX of net/mptcp/protocol.h."""


_PRIORITIES = (TUNNELS_RULES, TUNNELS_END, LINKS_RULES, LINKS_END, RULE_PRIORITY)
_TABLES = (BEST_LINK_TABLE, *LINK_TABLES, REFUSED_TABLE, DEFAULT_TUNNEL_TABLE, *TUNNEL_TABLES)


def is_owned_rule(rule: Rule) -> bool:
    """Whether this daemon created it, or an earlier run."""
    return rule.protocol == PROTOCOL and rule.priority in _PRIORITIES


def is_owned_route(route: Route) -> bool:
    """Whether this daemon created it, or an earlier run."""
    if route.protocol != PROTOCOL:
        return False
    if route.table == MAIN and route.metric == FIRST_METRIC:
        # Others leave the metric out as well: this one leads to a single address, the gateway inside.
        return route.gateway is None and route.destination.prefixlen == route.destination.max_prefixlen
    return route.table in _TABLES or (route.table == MAIN and route.metric in MAIN_METRICS)
