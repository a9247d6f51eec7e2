"""Tables [[bypass]]: connections of the LAN that take another way than the rest, and what contradicts itself. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from ipaddress import ip_network
from itertools import combinations
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from image.firstboot.values import Contradiction
from squid.targets import RANGES
from tributary.settings.bypass import is_device
from tributary.settings.files import Settings
from tributary.settings.hosts import Network
from tributary.settings.ports import Ports, ServicePorts
from tributary.settings.values import accepting, as_text, require
from tributary.wireguard.addresses import GLOBAL

MOST_TABLES, MOST_WITH_IPV6 = 16, 10
"""A line of dnsmasq's, of 1024 signs, takes a domain that is in that many of them (MAXDNAME in its sources)."""

MOST_VALUES = 256
_SHOWN = 8
"""Values of a key in words."""
BEST, GATEWAY = "best", "gateway"

DOMAIN = (
    "a domain of two or more parts, in small letters, such as 'example.com', which stands for all names below it as"
    " well; letters beyond a-z as xn--"
)
PREFIX = (
    "a network of the Internet without host bits, such as '198.51.100.0/24' or '2001:db8:9::/48'; private addresses are"
    " never bonded"
)
DEVICE = "the MAC address of a device, such as '02:00:5e:10:00:01'"
TO = f"the name of a link [wan.NAME], '{BEST}' (the best link that works) or '{GATEWAY}' (as without a by-pass)"
MATCHES = "at least one of the keys domains, prefixes, ports, devices"
TABLES = f"up to {MOST_TABLES} tables [[bypass]], each with the key to and {MATCHES}"

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


def _domain(value: object) -> str:
    text = as_text(value)
    require(len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})+", text, re.ASCII) is not None)
    # The last label of an address is a number, and that of no name (RFC 3696 section 2).
    require(not text.rpartition(".")[2].isdigit())
    return text


def _prefix(value: object) -> Network:
    network = ip_network(as_text(value))
    private = (each.network for each in RANGES if each.network.version == network.version)
    require(not any(map(network.overlaps, private)))
    require(network.version == 4 or network.subnet_of(GLOBAL))
    return network


def mac_address(value: object) -> str:
    """That of one device, in small letters; raises ValueError or TypeError."""
    text = as_text(value).lower()
    require(is_device(text))
    # The first byte's lowest bit is set in addresses of groups (IEEE 802).
    require(int(text[:2], 16) % 2 == 0)
    return text


Domain = Annotated[str, accepting(DOMAIN, _domain)]
Prefix = Annotated[Network, accepting(PREFIX, _prefix)]
Device = Annotated[str, accepting(DEVICE, mac_address)]


class Bypass(Settings):
    """Connections that match every given key, and the way that they take."""

    domains: list[Domain] = Field([], max_length=MOST_VALUES, title="names of servers")
    prefixes: list[Prefix] = Field([], max_length=MOST_VALUES, title="addresses of servers")
    ports: list[ServicePorts] = Field([], max_length=MOST_VALUES, title="ports of servers")
    devices: list[Device] = Field([], max_length=MOST_VALUES, title="devices of the LAN")
    to: str = Field(title="which way they take", description=TO)

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if not any(getattr(self, key) for key in _HOLDS):
            raise ValueError(MATCHES)
        return self

    @property
    def in_words(self) -> list[str]:
        """What it matches: a text for each key, with its first values."""
        given = {key: list(map(str, getattr(self, key))) for key in _HOLDS if getattr(self, key)}
        return [
            f"{key}: {', '.join(values[:_SHOWN])}" + (f" and {len(values) - _SHOWN} more" if values[_SHOWN:] else "")
            for key, values in given.items()
        ]

    def holds(self, other: "Bypass") -> bool:
        return all(_holds_all(holds, getattr(self, key), getattr(other, key)) for key, holds in _HOLDS.items())


def is_in(domain: str, outer: str) -> bool:
    """Whether ``domain`` is ``outer`` or below it."""
    return domain == outer or domain.endswith(f".{outer}")


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "domains": lambda outer, inner: is_in(inner, outer),
    "prefixes": lambda outer, inner: inner.version == outer.version and inner.subnet_of(outer),
    "ports": Ports.holds,
    "devices": lambda one, other: one == other,
}
"""For each key that matches, whether one of its values stands for all that another does."""


def _holds_all(holds: Callable[[Any, Any], bool], outer: Sequence[Any], inner: Sequence[Any]) -> bool:
    """An empty list matches everything."""
    return not outer or (bool(inner) and all(any(holds(one, each) for one in outer) for each in inner))


def contradictions(tables: Sequence[Bypass], links: Collection[str]) -> Iterator[Contradiction]:
    """Keys, their values, and what is accepted instead; ``links`` are the names of all [wan.NAME]."""
    for name in (BEST, GATEWAY):
        if name in links:
            yield f"wan.{name}", "(given)", f"another name, since {name!r} means something else in [[bypass]]"
    for place, table in enumerate(tables):
        if table.to not in (*links, BEST, GATEWAY):
            known = ", ".join(map(repr, (*links, BEST, GATEWAY)))
            yield f"bypass[{place}].to", table.to, f"one of {known}"
        for key, holds in _HOLDS.items():
            yield from overlapping(f"bypass[{place}].{key}", getattr(table, key), holds)
    for (first, one), (second, other) in combinations(enumerate(tables), 2):
        if one.holds(other):
            yield f"bypass[{second}]", "(given)", f"one that bypass[{first}], which counts before it, leaves something"


def too_often(tables: Sequence[Bypass]) -> Iterator[Contradiction]:
    """Domains that are in more tables than there may be where the LAN has IPv6, as contradictions."""
    for place, table in enumerate(tables):
        for number, domain in enumerate(table.domains):
            outer = [each for each in tables if any(is_in(domain, name) for name in each.domains)]
            if len(outer) > MOST_WITH_IPV6:
                accepted = f"a domain that is in at most {MOST_WITH_IPV6} tables, since the LAN has IPv6"
                yield f"bypass[{place}].domains[{number}]", domain, accepted


def overlapping(key: str, values: Sequence[Any], holds: Callable[[Any, Any], bool]) -> Iterator[Contradiction]:
    """Each of ``values`` that has something in common with an earlier one, as a contradiction."""
    for (first, one), (second, other) in combinations(enumerate(values), 2):
        if holds(one, other) or holds(other, one) or (isinstance(one, Ports) and one.overlaps(other)):
            yield f"{key}[{second}]", str(other), f"nothing that {key}[{first}], {str(one)!r}, has as well"
