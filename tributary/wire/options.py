"""The MPTCP options in a TCP header: bytes in, values out, and back (RFC 8684 section 3)."""

import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

END_OF_LIST, NO_OPERATION = 0, 1
MPTCP = 30
KEY, TOKEN, NONCE, HMAC_IN_SYN_ACK, HMAC_IN_ACK, HMAC_IN_ADD_ADDR = 8, 4, 4, 8, 20, 8
"""Lengths in bytes (RFC 8684 sections 3.1, 3.2 and 3.4.1)."""


class Subtype(IntEnum):
    """RFC 8684 section 7.2."""

    MP_CAPABLE = 0x0
    MP_JOIN = 0x1
    DSS = 0x2
    ADD_ADDR = 0x3
    REMOVE_ADDR = 0x4
    MP_PRIO = 0x5
    MP_FAIL = 0x6
    MP_FASTCLOSE = 0x7
    MP_TCPRST = 0x8


class ParseError(ValueError):
    """A block of TCP options that breaks RFC 9293 section 3.2 or RFC 8684 section 3."""


@dataclass(frozen=True)
class MpCapable:
    """RFC 8684 section 3.1: length 4 in a SYN, 12 in a SYN/ACK, 20 in an ACK, 22 or 24 with the first data.

    ``flags`` are the bits A to H. Sender and receiver are those of the segment.
    """

    version: int
    flags: int
    sender_key: bytes | None = None
    receiver_key: bytes | None = None
    data_length: int | None = None
    checksum: int | None = None


EXTENSIBILITY, HMAC_SHA256 = 0x40, 0x01
"""The flags B and H of MP_CAPABLE."""


@dataclass(frozen=True)
class MpJoinSyn:
    """RFC 8684 section 3.2, figure 5: a client asks to join the session that ``receiver_token`` names."""

    backup: bool
    address_id: int
    receiver_token: int
    sender_nonce: bytes


@dataclass(frozen=True)
class MpJoinSynAck:
    """RFC 8684 section 3.2, figure 6: the listener proves that it knows both keys (the leftmost 64 bits)."""

    backup: bool
    address_id: int
    hmac: bytes
    sender_nonce: bytes


@dataclass(frozen=True)
class MpJoinAck:
    """RFC 8684 section 3.2, figure 7: the client proves that it knows both keys (the leftmost 160 bits)."""

    hmac: bytes


@dataclass(frozen=True)
class MpPrio:
    """RFC 8684 section 3.3.8: from now on the sender wants this subflow used as a backup only, or no longer so."""

    backup: bool


@dataclass(frozen=True)
class MpFastclose:
    """RFC 8684 section 3.5: the sender closes the whole session; it proves its right by the receiver's key."""

    receiver_key: bytes


@dataclass(frozen=True)
class AddAddr:
    """RFC 8684 section 3.4.1: the sender has another address; with ``echo`` the receiver has heard of it.

    ``address`` is text; ``hmac``, the rightmost 64 bits, is there unless it is an echo.
    """

    echo: bool
    address_id: int
    address: str
    port: int | None = None
    hmac: bytes | None = None


@dataclass(frozen=True)
class RemoveAddr:
    """RFC 8684 section 3.4.2: these addresses of the sender are gone."""

    address_ids: tuple[int, ...]


@dataclass(frozen=True)
class Unparsed:
    """DSS, MP_FAIL and MP_TCPRST (RFC 8684 sections 3.3, 3.7, 3.6), and subtypes that RFC 8684 does not assign: the
    four bits beside the subtype, and the bytes after them.
    """

    subtype: int
    low: int
    data: bytes


Join = MpJoinSyn | MpJoinSynAck | MpJoinAck
Option = MpCapable | Join | MpPrio | MpFastclose | AddAddr | RemoveAddr | Unparsed

_BACKUP = 0x1
_ECHO = 0x1


def parse(block: bytes) -> tuple[Option, ...]:
    """The MPTCP options in ``block``, the option bytes of one TCP header; other kinds are passed over.

    Raises ParseError, and nothing else, for a block that is malformed.
    """
    return tuple(_mptcp(body) for kind, body in _options(block) if kind == MPTCP)


def _options(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Each option's kind and the bytes after its length (RFC 9293 section 3.2)."""
    at = 0
    while at < len(block) and block[at] != END_OF_LIST:
        if block[at] == NO_OPERATION:
            at += 1
            continue
        if at + 1 == len(block):
            raise ParseError("option without a length")
        length = block[at + 1]
        if length < 2 or at + length > len(block):
            raise ParseError(f"option length {length} at byte {at} of {len(block)}")
        yield block[at], block[at + 2 : at + length]
        at += length


def _mptcp(body: bytes) -> Option:
    if not body:
        raise ParseError("MPTCP option without a subtype")
    subtype, low, data = body[0] >> 4, body[0] & 0xF, body[1:]
    reader = _READERS.get(subtype)
    return reader(low, data) if reader else Unparsed(subtype, low, data)


def _capable(version: int, data: bytes) -> MpCapable:
    if len(data) not in (1, 9, 17, 19, 21):
        raise ParseError(f"MP_CAPABLE of {len(data) + 3} bytes")
    return MpCapable(
        version=version,
        flags=data[0],
        sender_key=data[1:9] or None,
        receiver_key=data[9:17] or None,
        data_length=int.from_bytes(data[17:19]) if len(data) > 17 else None,
        checksum=int.from_bytes(data[19:21]) if len(data) > 19 else None,
    )


def _join(low: int, data: bytes) -> MpJoinSyn | MpJoinSynAck | MpJoinAck:
    backup = bool(low & _BACKUP)
    if len(data) == 1 + TOKEN + NONCE:
        return MpJoinSyn(backup, data[0], int.from_bytes(data[1:5]), data[5:])
    if len(data) == 1 + HMAC_IN_SYN_ACK + NONCE:
        return MpJoinSynAck(backup, data[0], data[1:9], data[9:])
    if len(data) == 1 + HMAC_IN_ACK:
        return MpJoinAck(data[1:])
    raise ParseError(f"MP_JOIN of {len(data) + 3} bytes")


def _prio(low: int, data: bytes) -> MpPrio:
    if data:
        raise ParseError(f"MP_PRIO of {len(data) + 3} bytes")
    return MpPrio(bool(low & _BACKUP))


def _fastclose(_low: int, data: bytes) -> MpFastclose:
    if len(data) != 1 + KEY:
        raise ParseError(f"MP_FASTCLOSE of {len(data) + 3} bytes")
    return MpFastclose(data[1:])


def _add_addr(low: int, data: bytes) -> AddAddr:
    echo = bool(low & _ECHO)
    for size, family in ((4, socket.AF_INET), (16, socket.AF_INET6)):
        rest = len(data) - 1 - size - (0 if echo else HMAC_IN_ADD_ADDR)
        if rest in (0, 2):
            port = int.from_bytes(data[1 + size : 3 + size]) if rest else None
            proof = None if echo else data[-HMAC_IN_ADD_ADDR:]
            return AddAddr(echo, data[0], socket.inet_ntop(family, data[1 : 1 + size]), port, proof)
    raise ParseError(f"ADD_ADDR of {len(data) + 3} bytes")


def _remove_addr(_low: int, data: bytes) -> RemoveAddr:
    if not data:
        raise ParseError("REMOVE_ADDR of 3 bytes")
    return RemoveAddr(tuple(data))


_READERS: dict[int, Callable[[int, bytes], Option]] = {
    Subtype.ADD_ADDR: _add_addr,
    Subtype.REMOVE_ADDR: _remove_addr,
    Subtype.MP_CAPABLE: _capable,
    Subtype.MP_JOIN: _join,
    Subtype.MP_PRIO: _prio,
    Subtype.MP_FASTCLOSE: _fastclose,
}


def emit(option: Option) -> bytes:
    """The bytes of ``option`` from its kind to its end; reserved bits are zero."""
    subtype, low, data = _parts(option)
    return bytes([MPTCP, len(data) + 3, subtype << 4 | low]) + data


def _parts(option: Option) -> tuple[int, int, bytes]:
    match option:
        case MpCapable():
            return Subtype.MP_CAPABLE, option.version, _capable_data(option)
        case MpJoinSyn() | MpJoinSynAck() | MpJoinAck():
            return Subtype.MP_JOIN, *_join_parts(option)
        case MpPrio():
            return Subtype.MP_PRIO, int(option.backup), b""
        case MpFastclose():
            return Subtype.MP_FASTCLOSE, 0, b"\0" + option.receiver_key
        case AddAddr():
            return Subtype.ADD_ADDR, int(option.echo), _add_addr_data(option)
        case RemoveAddr():
            return Subtype.REMOVE_ADDR, 0, bytes(option.address_ids)
        case Unparsed():
            return option.subtype, option.low, option.data


def _join_parts(option: Join) -> tuple[int, bytes]:
    match option:
        case MpJoinSyn():
            data = struct.pack("!BI", option.address_id, option.receiver_token) + option.sender_nonce
            return int(option.backup), data
        case MpJoinSynAck():
            return int(option.backup), bytes([option.address_id]) + option.hmac + option.sender_nonce
        case MpJoinAck():
            return 0, b"\0" + option.hmac


def _capable_data(option: MpCapable) -> bytes:
    data = bytes([option.flags]) + (option.sender_key or b"") + (option.receiver_key or b"")
    for number in (option.data_length, option.checksum):
        data += b"" if number is None else number.to_bytes(2)
    return data


def _add_addr_data(option: AddAddr) -> bytes:
    family = socket.AF_INET6 if ":" in option.address else socket.AF_INET
    port = b"" if option.port is None else option.port.to_bytes(2)
    return bytes([option.address_id]) + socket.inet_pton(family, option.address) + port + (option.hmac or b"")
