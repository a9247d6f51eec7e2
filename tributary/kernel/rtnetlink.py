"""Interfaces, addresses, routes and rules as messages of rtnetlink(7).

Layouts, names and numbers are pyroute2's. The socket is not: pyroute2's does not tell when what it dumps has changed
meanwhile (NLM_F_DUMP_INTR), and a look that lacks a route would cost a link its subflows.
"""

import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

if "pyroute2" not in sys.modules and (_package := find_spec("pyroute2")) is not None:
    # As import has it, but for running its __init__.py, which imports all that there is: that takes four times as long
    # as what is used of it here, or more than a second on a Raspberry Pi.
    sys.modules["pyroute2"] = module_from_spec(_package)

from pyroute2.netlink import nlmsg, rtnl
from pyroute2.netlink.exceptions import NetlinkDecodeError
from pyroute2.netlink.rtnl import ifaddrmsg as addresses
from pyroute2.netlink.rtnl.fibmsg import FR_ACT_TO_TBL, FR_ACT_UNREACHABLE, fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import IFF_LOOPBACK, IFF_LOWER_UP, IFF_RUNNING, IFF_UP, ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import RTNH_F_ONLINK, rtmsg

from tributary.kernel.netlink import ROUTE, Malformed, Message, Watch
from tributary.kernel.state import (
    EVERY_BIT,
    EVERYWHERE,
    FAMILIES,
    Address,
    Interface,
    InterfaceAddress,
    Mark,
    Network,
    OwnAddress,
    Route,
    Rule,
)

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ETHERNET = 1  # ARPHRD_ETHER of linux/if_arp.h
_CLONED = 0x200  # RTM_F_CLONED of linux/rtnetlink.h
_UNICAST, _UNREACHABLE = rtnl.rt_type["unicast"], rtnl.rt_type["unreachable"]
_UNIVERSE, _ON_LINK_SCOPE = rtnl.rt_scope["universe"], rtnl.rt_scope["link"]
_VERSIONS: Mapping[int, int] = {family: version for version, family in FAMILIES.items()}

_GROUPS = (
    rtnl.RTNLGRP_LINK,
    *(rtnl.RTNLGRP_IPV4_IFADDR, rtnl.RTNLGRP_IPV4_ROUTE, rtnl.RTNLGRP_IPV4_RULE),
    *(rtnl.RTNLGRP_IPV6_IFADDR, rtnl.RTNLGRP_IPV6_ROUTE, rtnl.RTNLGRP_IPV6_RULE),
)

T = TypeVar("T")


def _body(message: nlmsg) -> bytes:
    """What comes after its header."""
    message.encode()
    return bytes(message.data[_HEADER.size :])


EVERY_LINK = rtnl.RTM_GETLINK, _body(ifinfmsg())
EVERY_ADDRESS = rtnl.RTM_GETADDR, _body(ifaddrmsg())
EVERY_ROUTE, EVERY_RULE = (rtnl.RTM_GETROUTE, _body(fibmsg())), (rtnl.RTM_GETRULE, _body(fibmsg()))
"""Types and bodies of dump requests for all address families; an rtmsg would request IPv4 only."""


@contextmanager
def _read(layout: type[nlmsg], message: Message) -> Iterator[Any]:
    """The message as pyroute2 has it; what goes wrong while it is looked at is Malformed."""
    size = _HEADER.size + len(message.body)
    found = layout(_HEADER.pack(size, message.kind, message.flags, message.sequence, 0) + message.body)
    try:
        found.decode()
        yield found
    except (NetlinkDecodeError, KeyError, ValueError, struct.error) as error:
        raise Malformed(f"no {layout.__name__}: {error!r}") from error


def _attribute(found: Any, name: str, kind: type[T]) -> T | None:
    """An attribute's value, None without one. pyroute2 leaves bytes where it cannot read them."""
    value = found.get_attr(name)
    if value is None or isinstance(value, kind):
        return value
    raise Malformed(f"{name} is {value!r}")


def _address(found: Any, name: str) -> Address | None:
    text = _attribute(found, name, str)
    return None if text is None else ip_address(text)


def watch() -> Watch:
    """Notices that links, addresses, routes or rules have changed."""
    return Watch(ROUTE, *_GROUPS)


def interface(message: Message) -> Interface:
    """The interface in an RTM_NEWLINK, without its driver; raises Malformed."""
    with _read(ifinfmsg, message) as found:
        name, flags = found.get_attr("IFLA_IFNAME"), found["flags"]
        if not name:
            raise Malformed("an interface without a name")
        return Interface(
            index=found["index"],
            name=name if isinstance(name, str) else name.decode(errors="replace"),
            is_up=bool(flags & IFF_UP),
            # One follows the other within a second: the operational state, and what the driver says.
            has_carrier=bool(flags & IFF_RUNNING and flags & IFF_LOWER_UP),
            is_loopback=bool(flags & IFF_LOOPBACK),
            is_enslaved=found.get_attr("IFLA_MASTER") is not None,
            macs=_macs(found) if found["ifi_type"] == _ETHERNET else (),
            mtu=_attribute(found, "IFLA_MTU", int) or 0,
            other_names=tuple(_other_names(found)),
        )


def _other_names(found: Any) -> Iterator[str]:
    properties = found.get_attr("IFLA_PROP_LIST")
    for name, value in properties["attrs"] if properties else ():
        if name == "IFLA_ALT_IFNAME" and isinstance(value, str):
            yield value


def _macs(found: Any) -> tuple[str, ...]:
    macs = (_attribute(found, name, str) for name in ("IFLA_ADDRESS", "IFLA_PERM_ADDRESS"))
    return tuple(dict.fromkeys(mac for mac in macs if mac))


def address(message: Message) -> InterfaceAddress | None:
    """The address in an RTM_NEWADDR, None if it is not of IP; raises Malformed."""
    with _read(ifaddrmsg, message) as found:
        if found["family"] not in _VERSIONS:
            return None
        # Of a point-to-point link the other one is the peer's (rtnetlink(7), IFA_LOCAL).
        own = _address(found, "IFA_LOCAL") or _address(found, "IFA_ADDRESS")
        if own is None:
            raise Malformed("no address in a message of one")
        long = _attribute(found, "IFA_FLAGS", int)
        flags = found["flags"] if long is None else long
        times = _attribute(found, "IFA_CACHEINFO", dict)
        return InterfaceAddress(
            interface=found["index"],
            address=own,
            is_usable=found["scope"] == _UNIVERSE
            and not flags & (addresses.IFA_F_TENTATIVE | addresses.IFA_F_DADFAILED),
            is_lasting=not flags & _unlasting(own),
            created=times["cstamp"] if times else 0,
        )


def _unlasting(address: Address) -> int:
    # With IPv4 the same bit means "secondary".
    temporary = addresses.IFA_F_TEMPORARY if address.version == 6 else 0
    return int(addresses.IFA_F_DEPRECATED | temporary)


def routes(message: Message) -> list[Route]:
    """The unicast routes in an RTM_NEWROUTE, several of a multipath route; a gateway may be of the other IP version.

    Of other kinds only those that make destinations unreachable. Raises Malformed.
    """
    with _read(rtmsg, message) as found:
        if found["family"] not in _VERSIONS or found["flags"] & _CLONED:
            return []
        if found["type"] == _UNREACHABLE:
            # IPv6 says the loopback interface.
            return [_route(found, None, found)]
        if found["type"] != _UNICAST:
            return []
        return [_route(found, interface, hop) for interface, hop in _hops(found)]


def _hops(found: Any) -> Iterator[tuple[int, Any]]:
    interface = _attribute(found, "RTA_OIF", int)
    if interface is not None:
        yield interface, found
    for hop in _attribute(found, "RTA_MULTIPATH", list) or []:
        yield hop["oif"], hop


def _route(found: Any, interface: int | None, hop: Any) -> Route:
    start, bits = _address(found, "RTA_DST"), found["dst_len"]
    if bits and start is None:
        raise Malformed("a route without its destination")
    table = _attribute(found, "RTA_TABLE", int)
    return Route(
        table=found["table"] if table is None else table,
        destination=ip_network((start, bits)) if start else EVERYWHERE[_VERSIONS[found["family"]]],
        gateway=_address(hop, "RTA_GATEWAY") or _via(hop),
        interface=interface,
        metric=_attribute(found, "RTA_PRIORITY", int) or 0,
        protocol=found["proto"],
        source=_address(found, "RTA_PREFSRC"),
    )


def _via(hop: Any) -> Address | None:
    """A gateway of the other IP version (RFC 5549)."""
    via = _attribute(hop, "RTA_VIA", dict)
    return ip_address(via["addr"]) if via else None


def _gateway(route: Route) -> list[tuple[str, object]]:
    gateway = route.gateway
    if gateway is None:
        return []
    if gateway.version == route.destination.version:
        return [("RTA_GATEWAY", str(gateway))]
    return [("RTA_VIA", {"family": FAMILIES[gateway.version], "addr": str(gateway)})]


def rule(message: Message) -> Rule | None:
    """The rule in an RTM_NEWRULE, None if it is not of a kind that we make; raises Malformed."""
    with _read(fibmsg, message) as found:
        if found["family"] not in _VERSIONS or found["action"] not in (FR_ACT_TO_TBL, FR_ACT_UNREACHABLE):
            return None
        packets = _packets(found)
        if packets is None:
            return None
        table = _attribute(found, "FRA_TABLE", int)
        return Rule(
            priority=_attribute(found, "FRA_PRIORITY", int) or 0,
            packets=packets,
            table=_table_of_rule(found, table),
            protocol=_attribute(found, "FRA_PROTOCOL", int) or 0,
        )


def _table_of_rule(found: Any, table: int | None) -> int | None:
    if found["action"] == FR_ACT_UNREACHABLE:
        return None
    return int(found["table"]) if table is None else table


def _packets(found: Any) -> Address | Network | Mark | None:
    """Those from one address or network, or with a mark from anywhere; None for all others."""
    source, mark = _address(found, "FRA_SRC"), _attribute(found, "FRA_FWMARK", int)
    if source is not None and mark is None:
        bits = found["src_len"]
        return source if bits == source.max_prefixlen else ip_network((source, bits), strict=False)
    if source is None and mark is not None:
        mask = _attribute(found, "FRA_FWMASK", int)
        return Mark(_VERSIONS[found["family"]], mark, EVERY_BIT if mask is None else mask)
    return None


def request(what: Route | Rule | OwnAddress, adds: bool) -> tuple[int, bytes]:
    """Type and body of the message that adds or removes it."""
    match what:
        case Route():
            return rtnl.RTM_NEWROUTE if adds else rtnl.RTM_DELROUTE, route_body(what)
        case Rule():
            return rtnl.RTM_NEWRULE if adds else rtnl.RTM_DELRULE, rule_body(what)
        case OwnAddress():
            return rtnl.RTM_NEWADDR if adds else rtnl.RTM_DELADDR, address_body(what)


def route_body(route: Route) -> bytes:
    """What an RTM_NEWROUTE or RTM_DELROUTE of ``route`` holds.

    It is onlink: some providers' gateways are outside of the prefix that they assign.
    """
    version, bits = route.destination.version, route.destination.prefixlen
    # fib_check_nh of net/ipv4/fib_semantics.c: a route to a neighbour has the scope "link".
    is_near = version == 4 and route.gateway is None and route.interface is not None
    scope = _ON_LINK_SCOPE if is_near else _UNIVERSE
    flags = RTNH_F_ONLINK if route.gateway else 0
    message = rtmsg()
    message.update(family=FAMILIES[version], dst_len=bits, proto=route.protocol, scope=scope)
    message.update(type=_UNREACHABLE if route.interface is None else _UNICAST, flags=flags)
    message["attrs"] = [
        *([("RTA_DST", str(route.destination.network_address))] if bits else []),
        *_gateway(route),
        *([("RTA_PREFSRC", str(route.source))] if route.source else []),
        *([("RTA_OIF", route.interface)] if route.interface is not None else []),
        ("RTA_PRIORITY", route.metric),
        ("RTA_TABLE", route.table),
    ]
    return _body(message)


def address_body(own: OwnAddress) -> bytes:
    """What an RTM_NEWADDR or RTM_DELADDR of it holds.

    It is used at once (IFA_F_NODAD): the prefix is the router's alone, and the gateway gives each out once.
    """
    address, message = own.address, ifaddrmsg()
    message.update(family=FAMILIES[6], prefixlen=address.network.prefixlen, flags=addresses.IFA_F_NODAD)
    message.update(index=own.interface)
    message["attrs"] = [("IFA_LOCAL", str(address.ip)), ("IFA_ADDRESS", str(address.ip))]
    return _body(message)


def rule_body(rule: Rule) -> bytes:
    """What an RTM_NEWRULE or RTM_DELRULE of ``rule`` holds."""
    packets, message = rule.packets, fibmsg()
    which: list[tuple[str, object]]
    message.update(family=FAMILIES[packets.version])
    message.update(action=FR_ACT_UNREACHABLE if rule.table is None else FR_ACT_TO_TBL)
    if isinstance(packets, Mark):
        which = [("FRA_FWMARK", packets.value), ("FRA_FWMASK", packets.mask)]
    else:
        network = ip_network(packets)
        message.update(src_len=network.prefixlen)
        which = [("FRA_SRC", str(network.network_address))]
    message["attrs"] = [
        *which,
        ("FRA_PRIORITY", rule.priority),
        *([("FRA_TABLE", rule.table)] if rule.table is not None else []),
        ("FRA_PROTOCOL", rule.protocol),
    ]
    return _body(message)
