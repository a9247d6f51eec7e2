"""The addresses that clients may never reach through the proxy, and those that the operator may allow.

The list is guard/forbidden-targets.toml, which the converter uses as well.
"""

import ipaddress
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from tributary.settings.hosts import Network

LIST = Path(__file__).parents[1] / "guard/forbidden-targets.toml"


@dataclass(frozen=True)
class Range:
    """One range of the list; ``carries_ipv4_at`` is the bit of an address at which an IPv4 address begins."""

    network: Network
    reason: str
    operator_may_open: bool
    carries_ipv4_at: int | None = None


def _read(file: Path) -> tuple[Range, ...]:
    rows = tomllib.loads(file.read_text())["range"]
    return tuple(Range(**{**row, "network": ipaddress.ip_network(row["network"])}) for row in rows)


RANGES = _read(LIST)

# What `private_targets` may open.
OPENABLE = tuple(each.network for each in RANGES if each.operator_may_open)

# IPv4-mapped addresses (RFC 4291 section 2.5.5.2) are for the packet filter alone: Squid holds every IPv4 address in
# this form, so that an ACL with this range would refuse all of IPv4. Squid checks the IPv4 address inside instead.
MAPPED = IPv6Network("::ffff:0:0/96")


def never() -> list[Network]:
    """The ranges that no setting allows, as Squid's ACL takes them: disjoint and sorted."""
    return disjoint(network for network, _ in _closed() if network != MAPPED)


def private(allowed: Iterable[Network]) -> list[Network]:
    """The ranges that the operator may allow, without those ``allowed``: disjoint and sorted.

    IPv6 addresses that embed a refused IPv4 address remain refused.
    """
    refused = list(OPENABLE)
    for hole in allowed:
        refused = [rest for network in refused for rest in _without(network, hole)]
    return disjoint([*refused, *carrying(refused)])


def carrying(networks: Iterable[Network]) -> list[Network]:
    """The IPv6 forms of the IPv4 ``networks``, where the operator may open these forms."""
    return [
        _carried(each.network, each.carries_ipv4_at, network)
        for network in networks
        for each in RANGES
        if each.operator_may_open and each.carries_ipv4_at is not None and network.version == 4
    ]


def _carried(carrier: Network, at: int, network: Network) -> Network:
    shifted = int(network.network_address) << (128 - 32 - at)
    return IPv6Network((int(carrier.network_address) | shifted, at + network.prefixlen))


def refusal(network: Network) -> str | None:
    """Why the operator may not open ``network``, if he may not."""
    for closed, reason in _closed():
        if _contains(closed, network):
            return f"never {closed}: {reason}"
    return None if any(_contains(outer, network) for outer in OPENABLE) else "never other networks"


def inside_private(network: Network) -> bool:
    """Whether ``network`` is one that the operator may open."""
    return refusal(network) is None


def _closed() -> list[tuple[Network, str]]:
    """The ranges that no setting allows, each with its reason, and their IPv6 forms that a setting could allow."""
    closed = [(each.network, each.reason) for each in RANGES if not each.operator_may_open]
    return [*closed, *((form, reason) for network, reason in closed for form in carrying([network]))]


def disjoint(networks: Iterable[Network]) -> list[Network]:
    """The same addresses in the fewest networks, IPv4 first; Squid warns of networks that overlap."""
    every = list(networks)
    four = ipaddress.collapse_addresses(n for n in every if isinstance(n, IPv4Network))
    six = ipaddress.collapse_addresses(n for n in every if isinstance(n, IPv6Network))
    return [*four, *six]


def _without(network: Network, hole: Network) -> list[Network]:
    if _contains(hole, network):
        return []
    return list(network.address_exclude(hole)) if _contains(network, hole) else [network]  # type: ignore[arg-type]


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]
