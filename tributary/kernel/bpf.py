"""Classic BPF programs (linux/filter.h), by which a socket chooses what it receives."""

import ctypes
import socket
import struct
from dataclasses import dataclass

NET = 0xFFF0_0000
"""SKF_NET_OFF: offsets from here on are from the network header."""
PROTOCOL = 0xFFFF_F000
"""SKF_AD_OFF + SKF_AD_PROTOCOL: the EtherType."""
VLAN_TAG, HAS_VLAN_TAG = 0xFFFF_F02C, 0xFFFF_F030
"""SKF_AD_OFF + SKF_AD_VLAN_TAG, and SKF_AD_VLAN_TAG_PRESENT: the tag that the kernel has taken off a frame."""

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


@dataclass(frozen=True)
class Instruction:
    """One struct sock_filter; ``yes`` and ``no`` say how many instructions to skip."""

    code: int
    k: int = 0
    yes: int = 0
    no: int = 0


def pack(instructions: tuple[Instruction, ...]) -> bytes:
    """The instructions as an array of struct sock_filter in this host's byte order."""
    return b"".join(struct.pack("HBBI", step.code, step.yes, step.no, step.k) for step in instructions)


def attach(packets: socket.socket, program: bytes) -> None:
    """Set a packed ``program`` as the socket's filter (linux/filter.h, struct sock_fprog)."""
    array = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HP", len(program) // 8, ctypes.addressof(array))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
