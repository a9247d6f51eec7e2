import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv46
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet

from throttler.sources.dissect import segment
from throttler.sources.sniffer import Captured, ReorderBuffer, complete_until, monotonic
from tributary.wire.segments import Flags, Segment

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
    network = lower.getlayer(IP) or lower.getlayer(IPv6)
    network.setfieldval("proto" if IP in lower else "nh", 6)
    packet = bytes(lower / (header + b"payload"))
    whole = Segment(5, "wired", False, source, 40001, destination, 3128, Flags.SYN, OPTIONS)
    assert segment(packet, Ether, 5, "wired", False) == whole
    inner = bytes(network / (header + b"payload"))
    assert segment(inner, IPv46, 5, "wired", False) == whole, "as a tunnel has it"


def test_the_gateways_side_of_a_subflow_is_the_one_that_sends_out_of_the_interface() -> None:
    coming = Segment(5, "wired", False, "10.0.1.2", 40001, "10.0.1.1", 3128, Flags.SYN, b"")
    going = Segment(5, "wired", True, "10.0.1.1", 3128, "10.0.1.2", 40001, Flags.SYN | Flags.ACK, b"")
    assert coming.subflow == going.subflow
    assert str(going.subflow) == "10.0.1.1:3128 > 10.0.1.2:40001"


CLIENT = IP(src="10.0.1.2", dst="10.0.1.1")
PLAIN = [
    bytes(ETHER / CLIENT / TCP(sport=40001, dport=3128, flags="S", options=[("MSS", 1460)])),
    bytes(ETHER / IPv6(src="fd00::2", dst="::ffff:10.0.1.1") / TCP(flags="FA") / b"payload"),
    bytes(ETHER / IP(src="10.0.1.2", dst="10.0.1.1", options=b"\x01" * 4) / TCP(flags="R")) + bytes(6),
    bytes(ETHER / Dot1Q(vlan=5) / CLIENT / TCP()),
    bytes(ETHER / IPv6(src="fd00::2", dst="fd00::1", nh=4) / CLIENT / TCP()),
    bytes(ETHER / ARP(psrc="10.0.1.2", hwsrc="02:00:00:00:00:01")),
]


def by_scapy(data: bytes, link: type[Packet]) -> Segment | None:
    """What Scapy's own layers say of the packet, whose header has to be whole."""
    try:
        packet = link(data)
    except Exception:  # of any kind, by what is cut off where
        return None
    network = next((layer for layer in packet.iterpayloads() if isinstance(layer, IP | IPv6)), None)
    transport = network.payload if network is not None else None
    if network is None or not is_sound(network) or not isinstance(transport, TCP):
        return None
    length = (transport.dataofs or 0) * 4
    if length < 20 or len(transport.original) < length:
        return None
    flags = Flags(int(transport.flags) & int(Flags.FIN | Flags.SYN | Flags.RST | Flags.ACK))
    ends = (network.src, transport.sport, network.dst, transport.dport)
    return Segment(5, "wired", False, *ends, flags, transport.original[20:length])


def is_sound(network: Packet) -> bool:
    if isinstance(network, IP):
        return bool(network.version == 4 and (network.ihl or 0) * 4 >= 20)
    return bool(network.version == 6)


def both_ways_agree(data: bytes) -> bool:
    """Of a frame, and of what is in it as a packet without a frame."""
    return all(
        segment(form, link, 5, "wired", False) == by_scapy(form, link)
        for link, form in ((Ether, data), (IPv46, data[14:]))
    )


@pytest.mark.parametrize("packet", PLAIN, ids=range(6))
def test_a_packet_cut_at_any_byte_is_the_same_both_ways(packet: bytes) -> None:
    for length in range(len(packet) + 1):
        assert both_ways_agree(packet[:length])


@pytest.mark.parametrize("packet", PLAIN[:3], ids=range(3))
def test_a_packet_with_any_byte_changed_is_the_same_both_ways(packet: bytes) -> None:
    for at in range(12, len(packet)):
        for value in (0, 1, 4, 6, 0x40, 0x45, 0x60, 0x81, 0xFF, packet[at] ^ 0x10):
            changed = packet[:at] + bytes([value]) + packet[at + 1 :]
            assert both_ways_agree(changed)


CHANGES = st.lists(st.tuples(st.integers(12, 80), st.integers(0, 255)), max_size=4)


@given(st.sampled_from(PLAIN), CHANGES, st.integers(0, 120))
def test_several_bytes_changed_are_the_same_both_ways(packet: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(packet)
    for at, value in changes:
        data[at % len(data)] = value
    assert both_ways_agree(bytes(data[:cut]))


@given(st.sampled_from([b"\x08\x00", b"\x86\xdd"]), st.binary(max_size=120))
def test_any_bytes_are_the_same_both_ways(kind: bytes, rest: bytes) -> None:
    assert both_ways_agree(bytes(12) + kind + rest)


def at(time: int) -> Segment:
    return Segment(time, "wired", False, "10.0.1.2", 40001, "10.0.1.1", 3128, Flags.SYN, b"")


def test_segments_of_two_sockets_come_out_in_the_order_of_their_time_once_none_can_be_overtaken() -> None:
    order = ReorderBuffer()
    assert order.push([at(1), at(5), at(2), at(4)], complete_until=9) == [at(1), at(2), at(4), at(5)]
    assert not order.has_pending
    order = ReorderBuffer()
    assert order.push([at(1), at(10)], complete_until=5) == [at(1)]
    assert order.push([at(7)], complete_until=8) == [at(7)]
    assert order.has_pending
    assert order.push([at(9)], complete_until=11) == [at(9), at(10)]
    assert not order.has_pending


def test_a_wall_clock_that_is_set_makes_no_packet_early_or_late() -> None:
    """Packets are stamped by the wall clock; two hours back, what is held back would wait for two hours."""
    second, hour = 10**9, 3600 * 10**9
    assert monotonic(100 * second, 103 * second, 7 * second) == 4 * second
    assert monotonic(104 * second, 103 * second, 7 * second) == 8 * second
    for step in (-2 * hour, 2 * hour, 20 * second):
        assert monotonic(100 * second + step, 103 * second, 7 * second) == 7 * second


def test_other_programs_in_this_process_may_read_whatever_scapy_can() -> None:
    asked = ETHER / IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67) / BOOTP()
    assert BOOTP in Ether(bytes(asked))


def test_a_socket_that_gave_a_whole_batch_may_have_more_whatever_could_be_read_of_it() -> None:
    whole: list[Captured] = [(1, None), (2, at(2)), (3, None)]
    assert complete_until(9, [whole, [(4, at(4))]], most=3) == 3
    assert complete_until(9, [whole[:2], []], most=3) == 9
