"""What happens between the packet socket and the handshakes; the socket itself is tested in tests/netns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from throttler.sources.dissect import segment
from throttler.sources.order import InOrder
from throttler.wire.segments import Flags, Segment

OPTIONS = bytes.fromhex("020405b40402080a323b3e6c000000000103030a1e040101")
# With both addresses, or Scapy asks the network for the one that is missing.
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


@pytest.mark.parametrize(
    ("lower", "source", "destination"),
    [
        (ETHER / IP(src="10.0.1.2", dst="10.0.1.1"), "10.0.1.2", "10.0.1.1"),
        (ETHER / IP(src="10.0.1.2", dst="10.0.1.1", options=b"\x01\x01\x01\x00"), "10.0.1.2", "10.0.1.1"),
        (ETHER / Dot1Q(vlan=5) / IP(src="10.0.1.2", dst="10.0.1.1"), "10.0.1.2", "10.0.1.1"),
        (ETHER / IPv6(src="fd00:0:0:1::2", dst="fd00:0:0:1::1"), "fd00:0:0:1::2", "fd00:0:0:1::1"),
    ],
)
def test_a_packet_becomes_a_segment_with_its_options_as_they_were(lower: Ether, source: str, destination: str) -> None:
    header = bytes(TCP(sport=40001, dport=3128, flags="S"))
    header = header[:12] + bytes([(5 + len(OPTIONS) // 4) << 4]) + header[13:20] + OPTIONS
    packet = bytes(_as_tcp(lower) / (header + b"payload"))
    found = segment(Ether(packet), 5, "wired", False)
    assert found == Segment(5, "wired", False, source, 40001, destination, 3128, Flags.SYN, OPTIONS)


def _as_tcp(lower: Ether) -> Ether:
    (lower.getlayer(IP) or lower.getlayer(IPv6)).setfieldval("proto" if IP in lower else "nh", 6)
    return lower


def test_the_gateways_side_of_a_subflow_is_the_one_that_sends_out_of_the_interface() -> None:
    coming = Segment(5, "wired", False, "10.0.1.2", 40001, "10.0.1.1", 3128, Flags.SYN, b"")
    going = Segment(5, "wired", True, "10.0.1.1", 3128, "10.0.1.2", 40001, Flags.SYN | Flags.ACK, b"")
    assert coming.subflow == going.subflow
    assert str(going.subflow) == "10.0.1.1:3128 > 10.0.1.2:40001"


def test_what_is_not_tcp_is_no_segment() -> None:
    assert segment(Ether(bytes(ETHER / ARP())), 5, "wired", False) is None


@given(st.binary(max_size=120))
def test_tcp_headers_of_any_bytes_are_a_segment_or_none(header: bytes) -> None:
    packet = Ether(bytes(ETHER / IP(src="10.0.1.2", dst="10.0.1.1", proto=6) / header))
    found = segment(packet, 5, "wired", False)
    assert found is None or len(found.options) <= 40


def at(time: int) -> Segment:
    return Segment(time, "wired", False, "10.0.1.2", 40001, "10.0.1.1", 3128, Flags.SYN, b"")


def test_segments_of_two_sockets_come_out_in_the_order_of_their_time() -> None:
    order = InOrder()
    assert order.sort([at(1), at(5), at(2), at(4)], complete_until=9) == [at(1), at(2), at(4), at(5)]
    assert not order.is_holding


def test_a_segment_that_may_have_been_overtaken_waits_until_it_cannot() -> None:
    order = InOrder()
    assert order.sort([at(1), at(10)], complete_until=5) == [at(1)]
    assert order.sort([at(7)], complete_until=8) == [at(7)]
    assert order.is_holding
    assert order.sort([at(9)], complete_until=11) == [at(9), at(10)]
    assert not order.is_holding


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    hour = 3600 * 10**9
    order = InOrder()
    assert order.sort([at(hour + 2)], complete_until=hour) == []
    assert order.sort([at(3)], complete_until=2) == [at(3), at(hour + 2)]
