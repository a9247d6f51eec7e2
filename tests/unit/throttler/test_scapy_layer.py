"""Scapy's TCP layer with MPTCP in it: built, dissected, shown; it changes this process's Scapy for good."""

import doctest

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, TCPerror
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import fuzz

from tests.unit.throttler.test_options import TABLE, WHAT_LINUX_SENDS
from throttler.sources.dissect import segment
from tributary.wire import scapy_layer
from tributary.wire.options import MpCapable, MpJoinSyn, Option, Unparsed, emit, parse

scapy_layer.install()

BEFORE, AFTER = IP(src="10.0.2.2", dst="10.0.1.1"), IPv6(src="fd00::2", dst="fd00::1")
JOIN = MpJoinSyn(False, 3, 0x8F3778F8, bytes.fromhex("149589a0"))


def header(block: bytes) -> bytes:
    """A TCP header with these option bytes, padded with zeroes."""
    block += bytes(-len(block) % 4)
    return bytes(12) + bytes([(5 + len(block) // 4) << 4, 2]) + bytes(6) + block


def built_anew(packet: TCP) -> bytes:
    """The packet's bytes from its fields' values, not from those that it was dissected from."""
    return bytes(TCP(**{field.name: packet.getfieldval(field.name) for field in packet.fields_desc}))


def mptcp_values(packet: TCP) -> list[object]:
    return [value for kind, value in packet.options if kind == "MPTCP"]


def test_the_example_in_the_modules_text_is_right() -> None:
    assert doctest.testmod(scapy_layer) == doctest.TestResults(0, 9)


@WHAT_LINUX_SENDS
def test_what_linux_sends_is_dissected_and_built_again(block: str, options: list[Option]) -> None:
    raw = header(bytes.fromhex(block))
    packet = TCP(raw)
    assert mptcp_values(packet) == options
    assert built_anew(packet) == raw


@pytest.mark.parametrize(("wire", "option"), TABLE)
def test_each_form_is_built_and_dissected_among_other_options(wire: str, option: Option) -> None:
    around = [("NOP", None), ("MPTCP", option), ("MSS", 1460)]
    for network in (BEFORE, AFTER):
        packet = network.__class__(bytes(network / TCP(options=around) / b"payload"))
        assert packet[TCP].options[:3] == around
        assert bytes.fromhex(wire) in bytes(packet)
        assert bytes(packet[TCP].payload) == b"payload"


@pytest.mark.parametrize(
    "body", ["", "01", "0101ff", "100102", "50ff", "3001", "40", "1203" + "00" * 8, "7001" + "00" * 8]
)
def test_what_is_malformed_or_has_reserved_bits_set_survives_as_bytes(body: str) -> None:
    data = bytes.fromhex(body)
    raw = header(bytes([30, len(data) + 2]) + data + bytes.fromhex("020405b4"))
    packet = TCP(raw)
    assert packet.options[:2] == [("MPTCP", data), ("MSS", 1460)]
    assert built_anew(packet) == raw


def test_an_option_that_runs_past_the_header_is_not_taken_for_a_shorter_one() -> None:
    raw = header(bytes.fromhex("1e0c0101"))
    packet = TCP(raw)
    assert packet.options == [("MPTCP", b"\x01\x01")]
    assert bytes(packet) == raw


def test_bytes_may_be_given_under_either_name_and_show_prints_names_and_hexadecimal() -> None:
    data = bytes.fromhex("0101")
    assert bytes(TCP(options=[("MPTCP", data)])) == bytes(TCP(options=[(30, data)]))
    shown = (BEFORE / TCP(options=[("MPTCP", MpCapable(1, 1, bytes(range(8))))])).show(dump=True)
    assert "('MPTCP', MpCapable(version=1, flags=0x1, sender_key=0001020304050607))" in shown


def test_a_second_installation_and_the_header_that_an_icmp_error_quotes_are_no_others() -> None:
    assert TCPerror(bytes(TCP(options=[("MPTCP", JOIN)]))).options == [("MPTCP", JOIN)]
    scapy_layer.install()
    assert TCP(bytes(TCP(options=[("MPTCP", JOIN)]))).options == [("MPTCP", JOIN)]


def test_other_options_and_fuzzing_are_as_scapy_has_them() -> None:
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (5, 0)), ("NOP", None), ("WScale", 7), (222, b"\x01")]
    assert TCP(bytes(TCP(options=[*options, ("EOL", None)]))).options[: len(options)] == options
    assert all(bytes(fuzz(TCP())) for _ in range(20))


@given(st.binary(max_size=40))
@example(b"\x1d\x03")  # TCP-AO without its key's number, of which Scapy makes no header
def test_the_throttlers_own_reading_of_a_packet_stays_the_same(block: bytes) -> None:
    raw = header(block)
    tag, packet = Dot1Q(vlan=5), IP(src="10.0.2.2", dst="10.0.1.1", proto=6)
    for lower in (packet, tag / packet):
        data = bytes(Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") / lower / raw)
        found = segment(data, Ether, 5, "wired", False)
        assert found is not None and found.options == raw[20:]


@pytest.mark.parametrize("value", [b"", b"\x01"])
def test_an_authentication_without_its_keys_numbers_survives_as_bytes(value: bytes) -> None:
    raw = header(b"\x01" + bytes([29, len(value) + 2]) + value + bytes.fromhex("020405b4"))
    packet = TCP(raw)
    assert packet.options[:3] == [("NOP", None), (29, value), ("MSS", 1460)]
    assert built_anew(packet) == raw


@given(st.binary(max_size=40))
@example(b"\x1d\x03")
@example(b"\x1d")
@example(b"\x01\x01\x01\x02")  # a kind without a length at the end of the header
def test_any_option_bytes_are_dissected_shown_and_kept(block: bytes) -> None:
    raw = header(block)
    packet = TCP(raw)
    assert bytes(packet) == raw
    assert packet.show(dump=True)
    built_anew(packet)


@given(st.lists(st.sampled_from([option for _, option in TABLE]), max_size=3))
def test_any_list_that_fits_comes_back(several: list[Option]) -> None:
    block = b"".join(map(emit, several))
    if len(block) <= 40:
        packet = TCP(bytes(TCP(options=[("MPTCP", option) for option in several])))
        assert mptcp_values(packet) == list(parse(block))


@given(st.integers(9, 15), st.integers(0, 15), st.binary(max_size=8))
def test_a_subtype_that_nobody_assigned_is_a_value(subtype: int, low: int, data: bytes) -> None:
    option = Unparsed(subtype, low, data)
    assert mptcp_values(TCP(bytes(TCP(options=[("MPTCP", option)])))) == [option]
