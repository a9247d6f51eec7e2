"""The capture filter, run by an interpreter of the instructions that it uses, against the option parser."""

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction
from tributary.wire import capture_filter
from tributary.wire.options import ParseError, Subtype, Unparsed, parse

PROGRAM = capture_filter.program()


def run(program: tuple[Instruction, ...], packet: bytes, tag: int | None = None) -> int:
    """What ``program`` returns for ``packet``, which starts at the network header; 0 for a load past its end."""
    machine = Machine(packet, tag)
    while (step := program[machine.at]).code != bpf.RETURN:
        machine.at += 1
        try:
            machine.do(step)
        except IndexError:
            return 0
    return step.k


class Machine:
    def __init__(self, packet: bytes, tag: int | None) -> None:
        self.packet, self.tag = packet, tag
        self.a = self.x = self.memory = self.at = 0

    def do(self, step: Instruction) -> None:
        jumps = {
            bpf.JUMP_EQUAL: self.a == step.k,
            bpf.JUMP_GREATER_OR_EQUAL: self.a >= step.k,
            bpf.JUMP_SET: bool(self.a & step.k),
        }
        if step.code in jumps:
            self.at += step.yes if jumps[step.code] else step.no
        elif step.code == bpf.JUMP:
            self.at += step.k
        elif step.code == bpf.STORE:
            self.memory = self.a
        elif step.code == bpf.LOAD_X_IMMEDIATE:
            self.x = step.k
        elif step.code == bpf.A_TO_X:
            self.x = self.a
        elif step.code == bpf.LOAD_X_IP_HEADER_LENGTH:
            self.x = 4 * (self.packet[step.k - bpf.NET] & 0xF)
        else:
            self.a = self.accumulator(step) & 0xFFFF_FFFF

    def known(self, extension: int) -> int:
        """What the kernel has about the packet beside its bytes."""
        return {
            bpf.PROTOCOL: 0x86DD if self.packet[0] >> 4 == 6 else 0x0800,
            bpf.HAS_VLAN_TAG: int(self.tag is not None),
            bpf.VLAN_TAG: self.tag or 0,
        }[extension]

    def accumulator(self, step: Instruction) -> int:
        k, offset = step.k, step.k - bpf.NET
        match step.code:
            case bpf.LOAD_WORD:
                return self.known(k)
            case bpf.LOAD_HALF:
                return self.packet[offset] << 8 | self.packet[offset + 1]
            case bpf.LOAD_BYTE:
                return self.packet[offset]
            case bpf.LOAD_BYTE_AT_X:
                return self.packet[offset + self.x]
        return {
            bpf.LOAD_MEMORY: self.memory,
            bpf.LOAD_IMMEDIATE: k,
            bpf.ADD: self.a + k,
            bpf.ADD_X: self.a + self.x,
            bpf.SUBTRACT: self.a - k,
            bpf.SUBTRACT_X: self.a - self.x,
            bpf.AND: self.a & k,
            bpf.SHIFT_RIGHT: self.a >> k,
            bpf.X_TO_A: self.x,
        }[step.code]


def tcp(flags: int, options: bytes = b"", payload: bytes = b"") -> bytes:
    options += bytes(-len(options) % 4)
    return struct.pack("!HHIIBBHHH", 1, 2, 0, 0, (5 + len(options) // 4) << 4, flags, 0, 0, 0) + options + payload


def ipv4(payload: bytes, protocol: int = 6, fragment: int = 0x4000, options: bytes = b"") -> bytes:
    header = 20 + len(options)
    addresses = ip_address("192.0.2.1").packed * 2
    length = header + len(payload)
    return (
        struct.pack("!BBHHHBBH", 0x40 | header // 4, 0, length, 0, fragment, 64, protocol, 0)
        + addresses
        + options
        + payload
    )


def ipv6(payload: bytes, next_header: int = 6) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(payload), next_header, 64) + bytes(32) + payload


def accepts(packet: bytes) -> bool:
    return run(PROGRAM, packet) > 0


TIMESTAMPS = bytes.fromhex("0101080a0102030405060708")
DSS = bytes.fromhex("1e0c2003a06b6277c6dcf0f3")
ADD_ADDR = bytes.fromhex("1e0831010a000201")


def test_the_program_is_within_the_kernels_limit() -> None:
    assert len(PROGRAM) <= 4096  # BPF_MAXINSNS
    assert len(bpf.pack(PROGRAM)) == 8 * len(PROGRAM)


@pytest.mark.parametrize("wrap", [ipv4, ipv6])
@pytest.mark.parametrize("flags", [0x02, 0x12, 0x11, 0x01, 0x04, 0x14, 0x19])
def test_syn_fin_and_rst_are_accepted_with_any_options(wrap: object, flags: int) -> None:
    for options in (b"", TIMESTAMPS, b"\x1e\x00"):
        assert accepts(wrap(tcp(flags, options)))  # type: ignore[operator]


@pytest.mark.parametrize("wrap", [ipv4, ipv6])
@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        (b"", False),
        (TIMESTAMPS, False),
        (TIMESTAMPS + DSS, False),
        (DSS + TIMESTAMPS, False),
        (TIMESTAMPS + DSS + ADD_ADDR, True),
        (ADD_ADDR + DSS + TIMESTAMPS, True),
        (b"\x01" * 37 + b"\x1e\x03\x50", True),
        (b"\x01" * 40, False),
        (b"\x00" + ADD_ADDR, False),
        (b"\x08\x00" + ADD_ADDR, False),
        (b"\x08\x01" + ADD_ADDR, False),
        (b"\x08\xff" + ADD_ADDR, False),
        (bytes.fromhex("1e1401017df87092ca0d5735a46c287fdfa5ea19"), True),
        (bytes.fromhex("1e1810005aa57fa79641070cdfc99b3ab1570644d491b19e"), True),
        (bytes.fromhex("1e0c7000a46c287fdfa5ea19"), True),
    ],
)
def test_an_ack_is_accepted_only_for_any_mptcp_option_but_dss(wrap: object, options: bytes, accepted: bool) -> None:
    # What follows the header looks like an option, and must not be taken for one.
    assert accepts(wrap(tcp(0x10, options, payload=ADD_ADDR * 100))) is accepted  # type: ignore[operator]


@pytest.mark.parametrize("wrap", [ipv4, ipv6])
@pytest.mark.parametrize(("tag", "accepted"), [(None, True), (0, True), (0xC000, True), (5, False), (0xC005, False)])
def test_what_belongs_to_a_vlan_is_rejected(wrap: object, tag: int | None, accepted: bool) -> None:
    assert (run(PROGRAM, wrap(tcp(0x02)), tag) > 0) is accepted  # type: ignore[operator]


def test_options_of_ipv4_are_passed_over_and_what_is_not_tcp_or_is_a_fragment_is_rejected() -> None:
    assert accepts(ipv4(tcp(0x02), options=b"\x01" * 40))
    assert not accepts(ipv4(tcp(0x10), options=b"\x01" * 40))
    assert not accepts(ipv4(tcp(0x02), protocol=17))
    assert not accepts(ipv6(tcp(0x02), next_header=17))
    assert not accepts(ipv4(tcp(0x02), fragment=0x2000))
    assert not accepts(ipv4(tcp(0x02), fragment=0x0001))


OPTION = st.one_of(
    st.sampled_from([b"\x01", b"\x00", TIMESTAMPS, DSS, ADD_ADDR, b"\x1e\x03\x51", b"\x1e\x00", b"\x1e\x02"]),
    st.binary(max_size=6),
)


@given(st.lists(OPTION, max_size=12).map(b"".join), st.booleans())
def test_the_filter_agrees_with_the_parser(options: bytes, over_ipv6: bool) -> None:
    options = options[:40]
    packet = (ipv6 if over_ipv6 else ipv4)(tcp(0x10, options, payload=bytes(200)))
    padded = options + bytes(-len(options) % 4)
    try:
        wanted = any(not isinstance(each, Unparsed) or each.subtype != Subtype.DSS for each in parse(padded))
    except ParseError:
        return  # Either is right: Python counts what gets through.
    assert accepts(packet) is wanted


@given(st.binary(min_size=1, max_size=120))
def test_any_bytes_end_the_program(packet: bytes) -> None:
    assert run(PROGRAM, packet) in (0, capture_filter.SNAP)
