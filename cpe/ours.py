"""By which numbers this daemon knows what it made, also after it was killed.

Rules and routes carry a protocol number, which the kernel keeps for whoever made them (rtnetlink(7), ip-rule(8)).
Endpoints carry none: which of them are ours is written down before they are made (memory.py).
"""

from cpe.observed import Route, Rule

PROTOCOL = 84
"""Of rules and routes; nobody else's in /etc/iproute2/rt_protos and in linux/rtnetlink.h."""

RULES = 8400
"""Priority of our rules: after the table local, before main and before what is added without a priority."""

TABLES = range(8401, 8409)
"""A routing table for each link, as it stands in the settings file."""

MAIN = 254
METRICS = range(1, 9)
"""Of our default routes in the table main, by rank: less than those of any DHCP client, 0 alone is less."""

TABLE_METRIC = 1
"""In our tables; said, since a kernel that is told none puts 0 for IPv4 and 1024 for IPv6."""

NUMBERS = range(128, 255)
"""Ids of endpoints: high ones, which nobody types."""

MOST_ENDPOINTS = 8
"""MPTCP_PM_ADDR_MAX of net/mptcp/protocol.h."""


def is_our_rule(rule: Rule) -> bool:
    """Whether this daemon made it, or one that was killed."""
    return rule.protocol == PROTOCOL and rule.priority == RULES and rule.table in TABLES


def is_our_route(route: Route) -> bool:
    """Whether this daemon made it, or one that was killed."""
    if route.protocol != PROTOCOL:
        return False
    return route.table in TABLES or (route.table == MAIN and route.is_default and route.metric in METRICS)
