import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tributary.kernel import mptcp_pm, rtnetlink
from tributary.kernel.interfaces import driver_and_bus
from tributary.kernel.netlink import ROUTE, Malformed, Message, Netlink, attribute
from tributary.kernel.rtnetlink import EVERY_ADDRESS, EVERY_LINK
from tributary.kernel.state import EVERYWHERE, Endpoint, Flags, Limits, Mark, Route, Rule

ROUTES = [
    Route(8401, ip_network("192.168.1.0/24"), None, 2, 1, 84),
    Route(8401, ip_network("0.0.0.0/0"), ip_address("192.168.1.1"), 2, 1, 84),
    Route(254, ip_network("0.0.0.0/0"), ip_address("192.168.1.1"), 2, 3, 84, ip_address("192.168.1.2")),
    Route(8402, ip_network("2001:db8:2::/64"), None, 300, 1, 84),
    Route(254, ip_network("10.84.0.1/32"), None, None, 9, 84),
    Route(254, ip_network("::/0"), None, None, 9, 84),
    Route(254, ip_network("::/0"), ip_address("fe80::1"), 3, 1, 84, ip_address("2001:db8:2::2")),
]
RULE_PRIORITY = [
    Rule(8400, ip_address("192.168.1.2"), 8401, 84),
    Rule(8400, ip_address("2001:db8:2::2"), 8402, 84),
    Rule(8391, Mark(4, 0x8411), 8401, 84),
    Rule(8392, Mark(6, 0x8410, 0xFFFFFFF0), None, 84),
]
ENDPOINTS = [
    Endpoint(ip_address("192.168.1.2"), 2, Flags.SUBFLOW | Flags.BACKUP),
    Endpoint(ip_address("2001:db8:2::2"), 0, Flags.SUBFLOW | Flags.FULLMESH),
]
ADD = mptcp_pm.ADD


def message(body: bytes) -> Message:
    return Message(0, 0, 1, body)


WRITTEN: list[tuple[Callable[[Message], Any], bytes, object]] = [
    *((rtnetlink.routes, rtnetlink.route_body(each), [each]) for each in ROUTES),
    *((rtnetlink.rule, rtnetlink.rule_body(each), each) for each in RULE_PRIORITY),
    *((mptcp_pm.endpoint, mptcp_pm.endpoint_body(ADD, 130, each), (130, each)) for each in ENDPOINTS),
    (mptcp_pm.limits, mptcp_pm.limits_body(Limits(8, 1)), Limits(8, 1)),
]


@pytest.mark.parametrize(("read", "body", "expected"), WRITTEN, ids=[str(each[2]) for each in WRITTEN])
def test_what_was_written_is_read_again(read: Callable[[Message], Any], body: bytes, expected: object) -> None:
    assert read(message(body)) == expected


LINK = struct.pack("=BxHiII", 0, 1, 7, 0x11043, 0) + attribute(3, b"eth0\0") + attribute(1, bytes(6))
ADDRESS = (
    struct.pack("=BBBBI", socket.AF_INET, 24, 0x80, 0, 7)
    + attribute(1, socket.inet_aton("192.168.1.9"))
    + attribute(2, socket.inet_aton("192.168.1.2"))
    + attribute(6, struct.pack("=IIII", 60, 60, 1234, 5678))
    + attribute(8, struct.pack("=I", 0x80))
)
CASES: list[tuple[Callable[[Message], Any], bytes]] = [
    *(each[:2] for each in WRITTEN),
    (rtnetlink.interface, LINK),
    (rtnetlink.address, ADDRESS),
]


@pytest.mark.parametrize(("read", "body"), CASES)
def test_a_message_that_is_cut_anywhere_is_malformed_or_says_less(read: Callable[[Message], Any], body: bytes) -> None:
    for length in range(len(body)):
        with suppress(Malformed):
            read(message(body[:length]))


def address_with(flags: int, family: int = socket.AF_INET6, scope: int = 0) -> Any:
    packed = ip_address("2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1").packed
    head = struct.pack("=BBBBI", family, 64, 0, scope, 7)
    return rtnetlink.address(message(head + attribute(1, packed) + attribute(8, struct.pack("=I", flags))))


def test_the_local_address_counts_and_not_the_peers() -> None:
    found = rtnetlink.address(message(ADDRESS))
    assert found is not None
    assert (str(found.address), found.created, found.is_usable) == ("192.168.1.2", 1234, True)


def test_which_addresses_are_usable_and_which_last_is_told_by_their_flags() -> None:
    assert address_with(0).is_usable
    assert not address_with(0x40).is_usable
    assert not address_with(0x08).is_usable
    assert not address_with(0, scope=253).is_usable
    assert address_with(0x80).is_lasting
    assert not address_with(0x01).is_lasting
    assert not address_with(0x20).is_lasting
    assert address_with(0x01, socket.AF_INET).is_lasting


@pytest.mark.parametrize(
    ("flags", "is_up", "has_carrier"),
    [(0x11043, True, True), (0x1003, True, False), (0x11003, True, False), (0x1002, False, False)],
)
def test_carrier_is_what_driver_and_operational_state_say(flags: int, is_up: bool, has_carrier: bool) -> None:
    found = rtnetlink.interface(message(struct.pack("=BxHiII", 0, 1, 7, flags, 0) + attribute(3, b"eth0\0")))
    assert (found.is_up, found.has_carrier) == (is_up, has_carrier)


def test_a_name_may_be_any_bytes_and_macs_are_both_addresses_of_a_card_but_not_a_tunnels() -> None:
    tunnel = struct.pack("=BxHiII", 0, 768, 7, 0x10041, 0)
    found = rtnetlink.interface(message(tunnel + attribute(1, bytes([192, 0, 2, 1])) + attribute(3, b"\xffppp\0")))
    assert (found.name, found.macs) == ("\N{REPLACEMENT CHARACTER}ppp", ())
    found = rtnetlink.interface(message(LINK + attribute(54, bytes.fromhex("020000000001"))))
    assert found.macs == ("00:00:00:00:00:00", "02:00:00:00:00:01")


def route_message(extra: bytes, kind: int = 1, flags: int = 0) -> list[Route]:
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 3, 0, kind, flags)
    return rtnetlink.routes(message(head + extra))


def test_a_multipath_route_is_one_route_for_each_next_hop() -> None:
    hops = b"".join(
        struct.pack("=HBBi", 16, 0, 0, index) + attribute(5, ip_address(f"10.{index}.0.1").packed) for index in (2, 3)
    )
    found = route_message(attribute(9, hops))
    assert [(route.interface, str(route.gateway)) for route in found] == [(2, "10.2.0.1"), (3, "10.3.0.1")]


def test_a_gateway_of_the_other_ip_version_leads_out() -> None:
    """IPv4's default route by an IPv6 neighbour, ``default via inet6 fe80::1``."""
    via = attribute(18, struct.pack("=H", socket.AF_INET6) + ip_address("fe80::1").packed)
    (route,) = route_message(attribute(4, struct.pack("=i", 2)) + via)
    assert (route.gateway, route.destination, route.interface) == (ip_address("fe80::1"), EVERYWHERE[4], 2)
    assert via in rtnetlink.route_body(route)


def test_routes_that_lead_nowhere_are_left_out_and_one_that_lacks_its_destination_is_malformed() -> None:
    interface = attribute(4, struct.pack("=i", 2))
    assert len(route_message(interface)) == 1
    assert route_message(interface, kind=6) == []
    assert route_message(interface, flags=0x200) == []
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 24, 0, 0, 254, 3, 0, 1, 0)
    with pytest.raises(Malformed, match="destination"):
        rtnetlink.routes(message(head + attribute(4, struct.pack("=i", 2))))


def test_somebody_elses_rules_may_name_bits_of_a_host_and_those_of_other_kinds_are_left_out() -> None:
    body = rtnetlink.rule_body(RULE_PRIORITY[0])
    found = rtnetlink.rule(message(body[:2] + b"\x18" + body[3:]))
    assert found is not None and str(found.packets) == "192.168.1.0/24"
    assert rtnetlink.rule(message(struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0))) is None


def test_the_kernels_loopback_is_read() -> None:
    with Netlink(ROUTE) as link:
        found = [rtnetlink.interface(each) for each in link.dump(*EVERY_LINK)]
        addresses = [rtnetlink.address(each) for each in link.dump(*EVERY_ADDRESS)]
    loopback = next(each for each in found if each.is_loopback)
    assert loopback.name == "lo"
    assert "127.0.0.1" in {str(each.address) for each in addresses if each and each.interface == loopback.index}
    assert driver_and_bus("lo") == ("", "")
    assert driver_and_bus("no-such-link") == ("", "")
