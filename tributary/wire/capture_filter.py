"""The capture filter: a classic BPF program that lets only handshakes, ends and rare MPTCP signals through to Python.

It accepts TCP segments, over IPv4 without fragments and IPv6 without extension headers, that have SYN, FIN or RST set
or carry an MPTCP option other than DSS, unless they are a VLAN's, which has an interface of its own. So neither data
nor acknowledgements of data are ever copied to user space.
All offsets are from the network header (SKF_NET_OFF), so that any link layer does.
"""

from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction
from tributary.wire.options import END_OF_LIST, MPTCP, NO_OPERATION, Subtype
from tributary.wire.segments import Flags

SNAP = 192
"""Bytes kept of an accepted packet: link layer, IP with options and TCP with options fit."""

_VLAN = 0xFFF
"""The number in a tag; 0 says a priority alone (IEEE 802.1Q section 9.6)."""
_ETHERTYPE_IPV4, _ETHERTYPE_IPV6, _TCP = 0x0800, 0x86DD, 6
_IPV4_PROTOCOL, _IPV4_FRAGMENT, _IPV6_NEXT_HEADER, _IPV6_HEADER = 9, 6, 6, 40
_FRAGMENT_BITS = 0x3FFF
"""More fragments, or an offset (RFC 791 section 3.1)."""
_TCP_OFFSET, _TCP_FLAGS, _TCP_HEADER = 12, 13, 20
_MOST_OPTIONS = 40
"""Bytes of options that a TCP header can have, and so the most options."""
_END = 0
"""The memory cell with the offset of the first byte after the TCP header."""

_REJECT = Instruction(bpf.RETURN, 0)
_ACCEPT = Instruction(bpf.RETURN, SNAP)


def program() -> tuple[Instruction, ...]:
    """The whole filter."""
    return (*_no_vlan(), *_network_layer(), *_tcp_flags(), *_options())


def _no_vlan() -> tuple[Instruction, ...]:
    """Before Linux 6.2 a tag may be an old one where none is present."""
    return (
        Instruction(bpf.LOAD_WORD, bpf.HAS_VLAN_TAG),
        Instruction(bpf.JUMP_EQUAL, 0, yes=3),
        Instruction(bpf.LOAD_WORD, bpf.VLAN_TAG),
        Instruction(bpf.JUMP_SET, _VLAN, no=1),
        _REJECT,
    )


def _network_layer() -> tuple[Instruction, ...]:
    """Leaves the offset of the TCP header in X."""
    return (
        Instruction(bpf.LOAD_WORD, bpf.PROTOCOL),
        Instruction(bpf.JUMP_EQUAL, _ETHERTYPE_IPV6, yes=7),
        Instruction(bpf.JUMP_EQUAL, _ETHERTYPE_IPV4, no=9),
        # IPv4
        Instruction(bpf.LOAD_BYTE, bpf.NET + _IPV4_PROTOCOL),
        Instruction(bpf.JUMP_EQUAL, _TCP, no=7),
        Instruction(bpf.LOAD_HALF, bpf.NET + _IPV4_FRAGMENT),
        Instruction(bpf.JUMP_SET, _FRAGMENT_BITS, yes=5),
        Instruction(bpf.LOAD_X_IP_HEADER_LENGTH, bpf.NET),
        Instruction(bpf.JUMP, 4),
        # IPv6
        Instruction(bpf.LOAD_BYTE, bpf.NET + _IPV6_NEXT_HEADER),
        Instruction(bpf.LOAD_X_IMMEDIATE, _IPV6_HEADER),
        Instruction(bpf.JUMP_EQUAL, _TCP, yes=1),
        _REJECT,
    )


def _tcp_flags() -> tuple[Instruction, ...]:
    return (
        Instruction(bpf.LOAD_BYTE_AT_X, bpf.NET + _TCP_FLAGS),
        Instruction(bpf.JUMP_SET, Flags.SYN | Flags.FIN | Flags.RST, no=1),
        _ACCEPT,
    )


def _options() -> tuple[Instruction, ...]:
    """Walks the options, with X at the next one. Classic BPF has no loops, hence one copy for each possible option."""
    prepare = (
        Instruction(bpf.LOAD_BYTE_AT_X, bpf.NET + _TCP_OFFSET),
        # The upper four bits count words: shifting by 2 less than 4 gives bytes.
        Instruction(bpf.AND, 0xF0),
        Instruction(bpf.SHIFT_RIGHT, 2),
        Instruction(bpf.ADD_X),
        Instruction(bpf.STORE, _END),
        Instruction(bpf.X_TO_A),
        Instruction(bpf.ADD, _TCP_HEADER),
        Instruction(bpf.A_TO_X),
    )
    return prepare + _option() * _MOST_OPTIONS + (_REJECT,)


def _option() -> tuple[Instruction, ...]:
    return (
        # At the end, or past it: the difference less one is then a very great unsigned number.
        Instruction(bpf.LOAD_MEMORY, _END),
        Instruction(bpf.SUBTRACT_X),
        Instruction(bpf.SUBTRACT, 1),
        Instruction(bpf.JUMP_GREATER_OR_EQUAL, _MOST_OPTIONS, yes=10),
        Instruction(bpf.LOAD_BYTE_AT_X, bpf.NET),
        Instruction(bpf.JUMP_EQUAL, END_OF_LIST, yes=8),
        Instruction(bpf.JUMP_EQUAL, NO_OPERATION, yes=8),
        Instruction(bpf.JUMP_EQUAL, MPTCP, no=4),
        Instruction(bpf.LOAD_BYTE_AT_X, bpf.NET + 2),
        Instruction(bpf.SHIFT_RIGHT, 4),
        Instruction(bpf.JUMP_EQUAL, Subtype.DSS, yes=1),
        _ACCEPT,
        # An option to pass over: its length must be at least 2 (RFC 9293 section 3.2).
        Instruction(bpf.LOAD_BYTE_AT_X, bpf.NET + 1),
        Instruction(bpf.JUMP_GREATER_OR_EQUAL, 2, yes=2),
        _REJECT,
        Instruction(bpf.LOAD_IMMEDIATE, 1),
        Instruction(bpf.ADD_X),
        Instruction(bpf.A_TO_X),
    )
