"""What the DSS options of a connection say: which bytes a subflow brought where, and how far the server acknowledged.

Positions are in the client's stream, whose first byte is 0.
"""

import hashlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

from experiments.probes import capture
from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction
from tributary.wire.options import MpCapable, MpJoinAck, MpJoinSyn, Option, Subtype, Unparsed, parse

_SNAP = 160  # bytes: IPv4 and TCP with all of their options
_IHL5_TCP, _OPTIONS_AT = 0x45, 40  # IPv4 without options, as the kernel sends it here
_HAS_ACK, _ACK_LONG, _HAS_MAPPING, _DSN_LONG = 0x01, 0x02, 0x04, 0x08  # RFC 8684 section 3.3, figure 9
_RING = 1 << 32


@dataclass(frozen=True)
class Segment:
    """A TCP segment with MPTCP options: whether the server ``sent`` it, and the client's end of its subflow."""

    sent: bool
    client: tuple[bytes, int]
    options: tuple[Option, ...]


def opened(port: int) -> socket.socket:
    """The headers of what goes to and from one TCP port of this namespace; the kernel keeps them until they are taken,
    so that a transfer is not disturbed by a process that reads along. Raises PermissionError without CAP_NET_RAW.
    """
    packets = capture.opened(_filter(port), kind=socket.SOCK_DGRAM)
    packets.setblocking(False)
    return packets


def taken(packets: socket.socket) -> Iterator[bytes]:
    """The packets since the last time, in order, each cut off behind its TCP options."""
    with suppress(BlockingIOError):
        while True:
            yield packets.recv(_SNAP)


def _filter(port: int) -> tuple[Instruction, ...]:
    """IPv4, TCP, from or to ``port``."""
    return (
        Instruction(bpf.LOAD_BYTE, bpf.NET),
        Instruction(bpf.JUMP_EQUAL, _IHL5_TCP, no=7),
        Instruction(bpf.LOAD_BYTE, bpf.NET + 9),
        Instruction(bpf.JUMP_EQUAL, socket.IPPROTO_TCP, no=5),
        Instruction(bpf.LOAD_HALF, bpf.NET + 20),
        Instruction(bpf.JUMP_EQUAL, port, yes=2),
        Instruction(bpf.LOAD_HALF, bpf.NET + 22),
        Instruction(bpf.JUMP_EQUAL, port, no=1),
        Instruction(bpf.RETURN, _SNAP),
        Instruction(bpf.RETURN, 0),
    )


def segment(packet: bytes, port: int) -> Segment:
    """A packet of opened(), of a server at ``port``; raises ValueError for options that nobody can read."""
    source, target = struct.unpack_from("!HH", packet, 20)
    end = 20 + 4 * (packet[32] >> 4)
    sent = source == port
    client = (packet[16:20], target) if sent else (packet[12:16], source)
    return Segment(sent, client, parse(packet[_OPTIONS_AT:end]))


def explanation(segments: Sequence[Segment], wrong: Mapping[str, Any]) -> dict[str, Any]:
    """The ``mapping`` that brought displaced bytes, and up to where the server had ``acknowledged``, if there are such:
    the bytes lie where they would if the mapping began at the acknowledged byte.

    ``wrong`` has first, end and shift, as integrity.difference() gives them. That is what Linux does when the join's
    third ACK waits for a system call's end: mptcp_subflow_joined() makes the data acknowledged so far the beginning of
    a mapping that had come meanwhile (net/mptcp/protocol.c).
    """
    begin = _initial(segments)
    if begin is None or "shift" not in wrong:
        return {}
    acknowledged = {(each - begin) % _RING for each in _acknowledged(segments)}
    source = range(wrong["first"] + wrong["shift"], wrong["end"] + wrong["shift"])
    for number, length in _joined_mappings(segments):
        first = (number - begin) % _RING
        if first <= source.start and source.stop <= first + length and first - wrong["shift"] in acknowledged:
            return {"mapping": [first, length], "acknowledged": first - wrong["shift"]}
    return {}


def _initial(segments: Sequence[Segment]) -> int | None:
    """The data sequence number of the client's first byte, by its key (RFC 8684 section 3.1), or None without it."""
    for each in segments:
        for option in each.options:
            if not each.sent and isinstance(option, MpCapable) and option.sender_key and option.receiver_key:
                return (int.from_bytes(hashlib.sha256(option.sender_key).digest()[-8:]) + 1) % _RING
    return None


def _acknowledged(segments: Sequence[Segment]) -> Iterator[int]:
    for option in (option for each in segments if each.sent for option in each.options):
        if _is_dss(option) and option.data[0] & _HAS_ACK:
            yield int.from_bytes(option.data[1 : _after_ack(option)]) % _RING


def _joined_mappings(segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Data sequence number and length of each mapping that came on a subflow that has joined."""
    joined = {each.client for each in segments if any(isinstance(one, MpJoinSyn | MpJoinAck) for one in each.options)}
    for each in segments:
        for option in each.options:
            if each.client in joined and not each.sent and _is_dss(option):
                yield from _mapping(option)


def _is_dss(option: Option) -> TypeGuard[Unparsed]:
    return isinstance(option, Unparsed) and option.subtype == Subtype.DSS


def _mapping(option: Unparsed) -> Iterator[tuple[int, int]]:
    flags, at = option.data[0], _after_ack(option)
    if flags & _HAS_MAPPING:
        end = at + (8 if flags & _DSN_LONG else 4)
        (length,) = struct.unpack_from("!H", option.data, end + 4)  # behind the subflow's own sequence number
        yield int.from_bytes(option.data[at:end]) % _RING, length


def _after_ack(option: Unparsed) -> int:
    flags = option.data[0]
    return 1 + (bool(flags & _HAS_ACK) * (8 if flags & _ACK_LONG else 4))
