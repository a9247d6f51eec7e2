"""The capture filter: a classic BPF program that lets only handshakes, ends and rare MPTCP signals through to Python.

It accepts TCP segments, over IPv4 without fragments and IPv6 without extension headers, that have SYN, FIN or RST set
or carry an MPTCP option other than DSS. So neither data nor acknowledgements of data are ever copied to user space.
The program format is that of linux/filter.h; all offsets are from the network header (SKF_NET_OFF), so that any link
layer does.
"""

import ctypes
import socket
import struct
from dataclasses import dataclass

from tributary.wire.options import END_OF_LIST, MPTCP, NO_OPERATION, Subtype
from tributary.wire.segments import Flags

NET = 0xFFF0_0000
"""SKF_NET_OFF: offsets from here on are from the network header."""
PROTOCOL = 0xFFFF_F000
"""SKF_AD_OFF + SKF_AD_PROTOCOL: the EtherType."""
SNAP = 192
"""Bytes kept of an accepted packet: link layer, IP with options and TCP with options fit."""

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
# Instruction codes of linux/bpf_common.h and linux/filter.h.
LOAD_WORD, LOAD_HALF, LOAD_BYTE = 0x20, 0x28, 0x30
LOAD_BYTE_AT_X = 0x50
LOAD_MEMORY, LOAD_IMMEDIATE = 0x60, 0x00
LOAD_X_IMMEDIATE, LOAD_X_IP_HEADER_LENGTH = 0x01, 0xB1
STORE = 0x02
ADD, ADD_X, SUBTRACT, SUBTRACT_X, AND, SHIFT_RIGHT = 0x04, 0x0C, 0x14, 0x1C, 0x54, 0x74
JUMP, JUMP_EQUAL, JUMP_GREATER_OR_EQUAL, JUMP_SET = 0x05, 0x15, 0x35, 0x45
RETURN = 0x06
A_TO_X, X_TO_A = 0x07, 0x87

_ETHERTYPE_IPV4, _ETHERTYPE_IPV6, _TCP = 0x0800, 0x86DD, 6
_IPV4_PROTOCOL, _IPV4_FRAGMENT, _IPV6_NEXT_HEADER, _IPV6_HEADER = 9, 6, 6, 40
_FRAGMENT_BITS = 0x3FFF
"""More fragments, or an offset (RFC 791 section 3.1)."""
_TCP_OFFSET, _TCP_FLAGS, _TCP_HEADER = 12, 13, 20
_MOST_OPTIONS = 40
"""Bytes of options that a TCP header can have, and so the most options."""
_END = 0
"""The memory cell with the offset of the first byte after the TCP header."""


@dataclass(frozen=True)
class Instruction:
    """One struct sock_filter; ``yes`` and ``no`` say how many instructions to skip."""

    code: int
    k: int = 0
    yes: int = 0
    no: int = 0


_REJECT = Instruction(RETURN, 0)
_ACCEPT = Instruction(RETURN, SNAP)


def program() -> tuple[Instruction, ...]:
    """The whole filter."""
    return (*_network_layer(), *_tcp_flags(), *_options())


def pack(instructions: tuple[Instruction, ...]) -> bytes:
    """The instructions as an array of struct sock_filter in this host's byte order."""
    return b"".join(struct.pack("HBBI", step.code, step.yes, step.no, step.k) for step in instructions)


def _network_layer() -> tuple[Instruction, ...]:
    """Leaves the offset of the TCP header in X."""
    return (
        Instruction(LOAD_WORD, PROTOCOL),
        Instruction(JUMP_EQUAL, _ETHERTYPE_IPV6, yes=7),
        Instruction(JUMP_EQUAL, _ETHERTYPE_IPV4, no=9),
        # IPv4
        Instruction(LOAD_BYTE, NET + _IPV4_PROTOCOL),
        Instruction(JUMP_EQUAL, _TCP, no=7),
        Instruction(LOAD_HALF, NET + _IPV4_FRAGMENT),
        Instruction(JUMP_SET, _FRAGMENT_BITS, yes=5),
        Instruction(LOAD_X_IP_HEADER_LENGTH, NET),
        Instruction(JUMP, 4),
        # IPv6
        Instruction(LOAD_BYTE, NET + _IPV6_NEXT_HEADER),
        Instruction(LOAD_X_IMMEDIATE, _IPV6_HEADER),
        Instruction(JUMP_EQUAL, _TCP, yes=1),
        _REJECT,
    )


def _tcp_flags() -> tuple[Instruction, ...]:
    return (
        Instruction(LOAD_BYTE_AT_X, NET + _TCP_FLAGS),
        Instruction(JUMP_SET, Flags.SYN | Flags.FIN | Flags.RST, no=1),
        _ACCEPT,
    )


def _options() -> tuple[Instruction, ...]:
    """Walks the options, with X at the next one. Classic BPF has no loops, hence one copy for each possible option."""
    prepare = (
        Instruction(LOAD_BYTE_AT_X, NET + _TCP_OFFSET),
        # The upper four bits count words: shifting by 2 less than 4 gives bytes.
        Instruction(AND, 0xF0),
        Instruction(SHIFT_RIGHT, 2),
        Instruction(ADD_X),
        Instruction(STORE, _END),
        Instruction(X_TO_A),
        Instruction(ADD, _TCP_HEADER),
        Instruction(A_TO_X),
    )
    return prepare + _option() * _MOST_OPTIONS + (_REJECT,)


def _option() -> tuple[Instruction, ...]:
    return (
        # At the end, or past it: the difference less one is then a very great unsigned number.
        Instruction(LOAD_MEMORY, _END),
        Instruction(SUBTRACT_X),
        Instruction(SUBTRACT, 1),
        Instruction(JUMP_GREATER_OR_EQUAL, _MOST_OPTIONS, yes=10),
        Instruction(LOAD_BYTE_AT_X, NET),
        Instruction(JUMP_EQUAL, END_OF_LIST, yes=8),
        Instruction(JUMP_EQUAL, NO_OPERATION, yes=8),
        Instruction(JUMP_EQUAL, MPTCP, no=4),
        Instruction(LOAD_BYTE_AT_X, NET + 2),
        Instruction(SHIFT_RIGHT, 4),
        Instruction(JUMP_EQUAL, Subtype.DSS, yes=1),
        _ACCEPT,
        # An option to pass over: its length must be at least 2 (RFC 9293 section 3.2).
        Instruction(LOAD_BYTE_AT_X, NET + 1),
        Instruction(JUMP_GREATER_OR_EQUAL, 2, yes=2),
        _REJECT,
        Instruction(LOAD_IMMEDIATE, 1),
        Instruction(ADD_X),
        Instruction(A_TO_X),
    )


def attach(packets: socket.socket, program: bytes) -> None:
    """Set a packed ``program`` as the socket's filter (linux/filter.h, struct sock_fprog)."""
    array = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HP", len(program) // 8, ctypes.addressof(array))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
