"""Interfaces, addresses, routes and rules as messages of rtnetlink(7); layouts and numbers of linux/rtnetlink.h."""

import socket
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum, IntFlag
from ipaddress import ip_address, ip_network

from cpe.observed import EVERYWHERE, Address, Interface, InterfaceAddress, Route, Rule
from tributary.mptcp.netlink import Malformed, Message, attribute, attributes


class MessageType(IntEnum):
    """Types of messages."""

    NEW_LINK = 16
    GET_LINK = 18
    NEW_ADDRESS = 20
    GET_ADDRESS = 22
    NEW_ROUTE = 24
    DELETE_ROUTE = 25
    GET_ROUTE = 26
    NEW_RULE = 32
    DELETE_RULE = 33
    GET_RULE = 34


class Group(IntEnum):
    """Multicast groups that tell of changes, enum rtnetlink_groups."""

    LINK = 1
    IPV4_ADDRESS = 5
    IPV4_ROUTE = 7
    IPV4_RULE = 8
    IPV6_ADDRESS = 9
    IPV6_ROUTE = 11
    IPV6_RULE = 19


class _LinkFlag(IntFlag):
    """linux/if.h; RUNNING is set in the operational states "up" and "unknown" of RFC 2863."""

    UP = 0x1
    LOOPBACK = 0x8
    RUNNING = 0x40
    LOWER_UP = 0x10000


class _AddressFlag(IntFlag):
    """linux/if_addr.h; TEMPORARY means "secondary" with IPv4."""

    TEMPORARY = 0x1
    DAD_FAILED = 0x8
    DEPRECATED = 0x20
    TENTATIVE = 0x40


_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
# struct rtmsg; struct fib_rule_hdr of linux/fib_rules.h has the same sizes: family, lengths of destination and source,
# type of service, table, protocol or nothing, scope or nothing, type or action, flags.
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEXT_HOP = struct.Struct("=HBBi")
_CREATED = struct.Struct("=8xI4x")  # struct ifa_cacheinfo

_MAC, _NAME, _MASTER, _PERMANENT_MAC = 1, 3, 10, 54
_IFA_ADDRESS, _IFA_LOCAL, _IFA_CACHE, _IFA_FLAGS = 1, 2, 6, 8
_DESTINATION, _INTERFACE, _GATEWAY, _METRIC, _SOURCE, _MULTIPATH, _TABLE, _VIA = 1, 4, 5, 6, 7, 9, 15, 18
_RULE_SOURCE, _RULE_PRIORITY, _RULE_TABLE, _RULE_PROTOCOL = 2, 6, 15, 21
_UNIVERSE, _ON_LINK_SCOPE = 0, 253
_UNICAST, _TO_TABLE = 1, 1
_CLONED, _ON_LINK = 0x200, 0x4
_FAMILIES: Mapping[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 6}
_FAMILY_OF: Mapping[int, int] = {4: socket.AF_INET, 6: socket.AF_INET6}

EVERY_LINK, EVERY_ADDRESS, EVERY_ROUTE = _LINK.pack(0, 0, 0, 0, 0), _ADDRESS.pack(0, 0, 0, 0, 0), _ROUTE.pack(*[0] * 9)
"""Bodies that ask for everything, of every address family; that of rules is that of routes."""


def interface(message: Message) -> Interface:
    """The interface in a NEW_LINK, without its driver; raises Malformed."""
    try:
        _, _, index, bits, _ = _LINK.unpack_from(message.body)
        found = dict(attributes(message.body, _LINK.size))
        flags = _LinkFlag(bits)
        return Interface(
            index=index,
            name=found[_NAME].rstrip(b"\0").decode(errors="replace"),
            is_up=_LinkFlag.UP in flags,
            # One follows the other within a second: the operational state, and what the driver says.
            has_carrier=_LinkFlag.RUNNING in flags and _LinkFlag.LOWER_UP in flags,
            is_loopback=_LinkFlag.LOOPBACK in flags,
            is_enslaved=_MASTER in found,
            macs=tuple(dict.fromkeys(found[each].hex(":") for each in (_MAC, _PERMANENT_MAC) if each in found)),
        )
    except (KeyError, struct.error) as error:
        raise Malformed(f"no interface: {error!r}") from error


def address(message: Message) -> InterfaceAddress | None:
    """The address in a NEW_ADDRESS, None if it is not of IP; raises Malformed."""
    try:
        family, _, short, scope, index = _ADDRESS.unpack_from(message.body)
        if family not in _FAMILIES:
            return None
        found = dict(attributes(message.body, _ADDRESS.size))
        flags = _AddressFlag(_number(found[_IFA_FLAGS]) if _IFA_FLAGS in found else short)
        (created,) = _CREATED.unpack_from(found[_IFA_CACHE]) if _IFA_CACHE in found else (0,)
        return InterfaceAddress(
            interface=index,
            # Of a point-to-point link the other one is the peer's (rtnetlink(7), IFA_LOCAL).
            address=ip_address(found.get(_IFA_LOCAL) or found[_IFA_ADDRESS]),
            is_usable=scope == _UNIVERSE and not flags & (_AddressFlag.TENTATIVE | _AddressFlag.DAD_FAILED),
            is_lasting=not flags & _unlasting(family),
            created=created,
        )
    except (KeyError, ValueError, struct.error) as error:
        raise Malformed(f"no address: {error!r}") from error


def _unlasting(family: int) -> _AddressFlag:
    if family == socket.AF_INET6:
        return _AddressFlag.DEPRECATED | _AddressFlag.TEMPORARY
    return _AddressFlag.DEPRECATED


def routes(message: Message) -> Iterator[Route]:
    """The unicast routes in a NEW_ROUTE: several of a multipath route, none with a gateway of another IP version."""
    try:
        family, bits, _, _, table, protocol, _, kind, flags = _ROUTE.unpack_from(message.body)
        if family not in _FAMILIES or kind != _UNICAST or flags & _CLONED:
            return
        found = dict(attributes(message.body, _ROUTE.size))
        for interface, hop in _hops(found):
            if _VIA in hop:
                continue
            yield Route(
                table=_number(found[_TABLE]) if _TABLE in found else table,
                destination=ip_network((found[_DESTINATION], bits)) if bits else EVERYWHERE[_FAMILIES[family]],
                gateway=ip_address(hop[_GATEWAY]) if _GATEWAY in hop else None,
                interface=interface,
                metric=_number(found[_METRIC]) if _METRIC in found else 0,
                protocol=protocol,
                source=ip_address(found[_SOURCE]) if _SOURCE in found else None,
            )
    except (KeyError, ValueError, struct.error) as error:
        raise Malformed(f"no route: {error!r}") from error


def _hops(found: Mapping[int, bytes]) -> Iterator[tuple[int, Mapping[int, bytes]]]:
    """Interface and attributes of each next hop (struct rtnexthop)."""
    if _INTERFACE in found:
        yield _number(found[_INTERFACE]), found
    data = found.get(_MULTIPATH, b"")
    at = 0
    while at + _NEXT_HOP.size <= len(data):
        length, _, _, index = _NEXT_HOP.unpack_from(data, at)
        if length < _NEXT_HOP.size:
            raise Malformed(f"next hop of {length} bytes")
        yield index, dict(attributes(data[at + _NEXT_HOP.size : at + length]))
        at += length + 3 & ~3


def rule(message: Message) -> Rule | None:
    """The rule in a NEW_RULE, None if it is not of the kind ``from ADDRESS lookup TABLE``; raises Malformed."""
    try:
        family, _, bits, _, table, _, _, action, _ = _ROUTE.unpack_from(message.body)
        found = dict(attributes(message.body, _ROUTE.size))
        if family not in _FAMILIES or action != _TO_TABLE or _RULE_SOURCE not in found:
            return None
        if bits != len(found[_RULE_SOURCE]) * 8:
            return None
        return Rule(
            priority=_number(found[_RULE_PRIORITY]) if _RULE_PRIORITY in found else 0,
            source=ip_address(found[_RULE_SOURCE]),
            table=_number(found[_RULE_TABLE]) if _RULE_TABLE in found else table,
            protocol=found.get(_RULE_PROTOCOL, b"\0")[0],
        )
    except (IndexError, ValueError, struct.error) as error:
        raise Malformed(f"no rule: {error!r}") from error


def route_body(route: Route) -> bytes:
    """What a NEW_ROUTE or DELETE_ROUTE of ``route`` holds.

    A gateway is said to be on the link, since some providers' are outside of the prefix that they give.
    """
    version = route.destination.version
    # fib_check_nh of net/ipv4/fib_semantics.c: a route to a neighbour has the scope "link".
    scope = _ON_LINK_SCOPE if version == 4 and route.gateway is None else _UNIVERSE
    bits, flags = route.destination.prefixlen, _ON_LINK if route.gateway else 0
    head = _ROUTE.pack(_FAMILY_OF[version], bits, 0, 0, 0, route.protocol, scope, _UNICAST, flags)
    return (
        head
        + (attribute(_DESTINATION, route.destination.network_address.packed) if bits else b"")
        + (attribute(_GATEWAY, route.gateway.packed) if route.gateway else b"")
        + (attribute(_SOURCE, route.source.packed) if route.source else b"")
        + attribute(_INTERFACE, struct.pack("=i", route.interface))
        + attribute(_METRIC, struct.pack("=I", route.metric))
        + attribute(_TABLE, struct.pack("=I", route.table))
    )


def rule_body(rule: Rule) -> bytes:
    """What a NEW_RULE or DELETE_RULE of ``rule`` holds."""
    source = rule.source.packed
    head = _ROUTE.pack(_FAMILY_OF[rule.source.version], 0, len(source) * 8, 0, 0, 0, 0, _TO_TABLE, 0)
    return (
        head
        + attribute(_RULE_SOURCE, source)
        + attribute(_RULE_PRIORITY, struct.pack("=I", rule.priority))
        + attribute(_RULE_TABLE, struct.pack("=I", rule.table))
        + attribute(_RULE_PROTOCOL, bytes([rule.protocol]))
    )


def _number(data: bytes) -> int:
    return int(struct.unpack("=I", data)[0])


def family(address: Address) -> int:
    """AF_INET or AF_INET6."""
    return _FAMILY_OF[address.version]
