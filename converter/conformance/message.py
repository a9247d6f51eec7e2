"""Convert messages to and from bytes (RFC 8803 section 6), and the TCP options inside them. No sockets."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

VERSION = 1
MAGIC = 0x2263
WORD = 4  # lengths count 32-bit words
LONGEST = 255 * WORD  # Total Length is 8 bits wide

Address = IPv4Address | IPv6Address


class Tlv(IntEnum):
    """RFC 8803 section 10.2.2."""

    INFO = 1
    CONNECT = 10
    EXTENDED_TCP_HEADER = 20
    SUPPORTED_TCP_EXTENSIONS = 21
    COOKIE = 22
    ERROR = 30


class Code(IntEnum):
    """RFC 8803 section 10.2.3."""

    UNSUPPORTED_VERSION = 0
    MALFORMED_MESSAGE = 1
    UNSUPPORTED_MESSAGE = 2
    MISSING_COOKIE = 3
    NOT_AUTHORIZED = 32
    UNSUPPORTED_TCP_OPTION = 33
    RESOURCE_EXCEEDED = 64
    NETWORK_FAILURE = 65
    CONNECTION_RESET = 96
    DESTINATION_UNREACHABLE = 97


class Kind(IntEnum):
    """Kinds of TCP options that RFC 8803 section 7 speaks of."""

    END = 0
    NO_OPERATION = 1
    MAXIMUM_SEGMENT_SIZE = 2
    WINDOW_SCALE = 3
    SACK_PERMITTED = 4
    SACK = 5
    TIMESTAMP = 8
    AUTHENTICATION = 29
    MULTIPATH = 30
    FAST_OPEN = 34


class Garbled(ValueError):
    """Bytes that are no Convert message; the text says what is wrong with them."""


@dataclass(frozen=True)
class Option:
    """A TCP option without its kind and length bytes."""

    kind: int
    value: bytes = b""

    def encode(self) -> bytes:
        return bytes([self.kind, 2 + len(self.value)]) + self.value


@dataclass(frozen=True)
class Error:
    """An Error TLV: the Value field is all that follows the code (figure 22)."""

    code: int
    value: bytes

    def __str__(self) -> str:
        name = (
            Code(self.code).name.replace("_", " ").capitalize().replace("tcp", "TCP")
            if self.code in list(Code)
            else "unassigned"
        )
        return f"error {self.code} ({name}) with value {self.value.hex()}"


@dataclass(frozen=True)
class Reply:
    """A Convert message from the converter: its TLVs by type, each without its type and length bytes."""

    raw: bytes
    tlvs: dict[int, bytes]

    @property
    def error(self) -> Error | None:
        value = self.tlvs.get(Tlv.ERROR)
        return None if value is None else Error(value[0], value[1:])

    def __str__(self) -> str:
        if self.error:
            return str(self.error)
        return f"a reply with {', '.join(f'TLV {kind}' for kind in self.tlvs) or 'no TLV'}: {self.raw.hex()}"


def pad(data: bytes) -> bytes:
    """Zeros behind `data` up to the next 32-bit boundary."""
    return data + bytes(-len(data) % WORD)


def tlv(kind: int, value: bytes, words: int | None = None) -> bytes:
    """A TLV (section 6.2.1) with its true length, or with a length field of `words`, true or not."""
    body = pad(bytes(2) + value)[2:]
    return bytes([kind, (2 + len(body)) // WORD if words is None else words]) + body


def mapped(address: Address) -> bytes:
    """The 16 bytes of an address; of IPv4 in the IPv4-mapped format (section 6.2.5)."""
    return address.packed if isinstance(address, IPv6Address) else bytes(10) + b"\xff\xff" + address.packed


def connect(address: Address, port: int, options: bytes = b"") -> bytes:
    """A Base Connect TLV, or an Extended one if there are `options` (section 6.2.5)."""
    return tlv(Tlv.CONNECT, port.to_bytes(2) + mapped(address) + options)


def info() -> bytes:
    """An Info TLV (section 6.2.3)."""
    return tlv(Tlv.INFO, bytes(2))


def cookie(value: bytes) -> bytes:
    """A Cookie TLV (section 6.2.7)."""
    return tlv(Tlv.COOKIE, bytes(2) + value)


def encode(*tlvs: bytes, version: int = VERSION, magic: int = MAGIC, words: int | None = None) -> bytes:
    """A Convert message (section 6.1) with its true Total Length, or one of `words`, true or not."""
    body = b"".join(tlvs)
    total = 1 + len(body) // WORD if words is None else words
    return bytes([version, total]) + magic.to_bytes(2) + body


def length(head: bytes) -> int:
    """Bytes of the message that starts with these four (section 6.1)."""
    if head[0] != VERSION:
        raise Garbled(f"version {head[0]} instead of 1 in {head.hex()}")
    if int.from_bytes(head[2:4]) != MAGIC:
        raise Garbled(f"magic number {head[2:4].hex()} instead of 2263 in {head.hex()}")
    if head[1] == 0:
        raise Garbled(f"total length zero in {head.hex()}")
    return head[1] * WORD


def decode(raw: bytes) -> Reply:
    """The whole message `raw`, each TLV framed within it and there once (section 6.2.1)."""
    if len(raw) != length(raw):
        raise Garbled(f"{len(raw)} bytes of {length(raw)}: {raw.hex()}")
    tlvs: dict[int, bytes] = {}
    rest = raw[WORD:]
    while rest:
        kind, size = rest[0], rest[1] * WORD
        _check_frame(kind, size, len(rest), tlvs, raw)
        tlvs[kind] = rest[2:size]
        rest = rest[size:]
    return Reply(raw, tlvs)


def _check_frame(kind: int, size: int, left: int, before: dict[int, bytes], raw: bytes) -> None:
    if not WORD <= size <= left:
        raise Garbled(f"TLV {kind} of {size} bytes where {left} are left: {raw.hex()}")
    if kind in before:
        raise Garbled(f"TLV {kind} twice: {raw.hex()}")
    if kind == 0:
        raise Garbled(f"TLV of the reserved type 0: {raw.hex()}")


def options(field: bytes) -> tuple[Option, ...]:
    """The TCP options in the bytes of a TCP header behind its fixed part; without the one-byte kinds 0 and 1."""
    found: list[Option] = []
    while field and field[0] != Kind.END:
        if field[0] == Kind.NO_OPERATION:
            field = field[1:]
            continue
        if len(field) < 2 or not 2 <= field[1] <= len(field):
            raise Garbled(f"TCP option {field[0]} runs past the end or is too short: {field.hex()}")
        found.append(Option(field[0], field[2 : field[1]]))
        field = field[field[1] :]
    if any(field):
        raise Garbled(f"bytes behind the end of the TCP options: {field.hex()}")
    return tuple(found)


def kinds(found: Sequence[Option]) -> str:
    """Options for a person: kind and value each."""
    return ", ".join(f"{option.kind}:{option.value.hex() or '-'}" for option in found) or "none"
