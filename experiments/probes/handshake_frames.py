"""MPTCP handshakes that no kernel made and that are right all the same: keys, tokens, HMACs, checksums.

Ethernet frames with IPv4 and TCP, as a client and a listener would send them (RFC 8684 sections 3.1 and 3.2).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from tributary.wire.keys import join_hmac, token
from tributary.wire.options import HMAC_IN_SYN_ACK, HMAC_SHA256, MpCapable, MpJoinAck, MpJoinSyn, MpJoinSynAck, emit
from tributary.wire.options import Option as MptcpOption
from tributary.wire.segments import Flags

_VERSION = 1  # of MPTCP: RFC 8684
_CLIENT_SEQUENCE, _LISTENER_SEQUENCE, _WINDOW, _LIVES = 1000, 5000, 65535, 64
_FIRST_PORT, _PORTS = 1024, 60_000


@dataclass(frozen=True)
class Ends:
    """Both nodes' link-layer addresses, the first client's address, and the listener's address and port."""

    client_mac: bytes
    listener_mac: bytes
    first_client: IPv4Address
    listener: IPv4Address
    port: int


@dataclass(frozen=True)
class Subflow:
    """A subflow's SYN, SYN/ACK and third ACK; the listener sends the second."""

    syn: bytes
    syn_ack: bytes
    ack: bytes


@dataclass(frozen=True)
class _End:
    """Of a subflow; ``sequence`` is its first number."""

    mac: bytes
    address: bytes
    port: int
    sequence: int


def subflows(ends: Ends, count: int, by_session: int, by_client: int) -> Iterator[Subflow]:
    """``count`` subflows, ``by_session`` of them a session, ``by_client`` of them a client's address.

    The n-th subflow of a session is a join from another port of the same address. A session is one client's.
    """
    listener = _End(ends.listener_mac, ends.listener.packed, ends.port, _LISTENER_SEQUENCE)
    for number in range(count):
        address, place = divmod(number, by_client)
        port = _FIRST_PORT + place % _PORTS
        client = _End(ends.client_mac, (ends.first_client + address).packed, port, _CLIENT_SEQUENCE)
        session, joined = divmod(number, by_session)
        keys = struct.pack("!4sI", b"clnt", session), struct.pack("!4sI", b"lstn", session)
        options = _join(*keys, number, joined % 256) if joined else _opening(*keys)
        yield _subflow(client, listener, *options)


_Three = tuple[MptcpOption, MptcpOption, MptcpOption]
"""Of the SYN, the SYN/ACK and the third ACK."""


def _opening(client_key: bytes, listener_key: bytes) -> _Three:
    """RFC 8684 section 3.1."""
    return (
        MpCapable(_VERSION, HMAC_SHA256),
        MpCapable(_VERSION, HMAC_SHA256, listener_key),
        MpCapable(_VERSION, HMAC_SHA256, client_key, listener_key),
    )


def _join(client_key: bytes, listener_key: bytes, number: int, address_id: int) -> _Three:
    """RFC 8684 section 3.2."""
    client_nonce, listener_nonce = struct.pack("!I", number), struct.pack("!I", ~number & 0xFFFF_FFFF)
    from_listener = join_hmac(listener_key, client_key, listener_nonce, client_nonce)
    return (
        MpJoinSyn(False, address_id, token(listener_key), client_nonce),
        MpJoinSynAck(False, 0, from_listener[:HMAC_IN_SYN_ACK], listener_nonce),
        MpJoinAck(join_hmac(client_key, listener_key, client_nonce, listener_nonce)),
    )


def _subflow(client: _End, listener: _End, syn: MptcpOption, syn_ack: MptcpOption, ack: MptcpOption) -> Subflow:
    return Subflow(
        _frame(client, listener, Flags.SYN, client.sequence, 0, syn),
        _frame(listener, client, Flags.SYN | Flags.ACK, listener.sequence, client.sequence + 1, syn_ack),
        _frame(client, listener, Flags.ACK, client.sequence + 1, listener.sequence + 1, ack),
    )


def _frame(source: _End, target: _End, flags: Flags, sequence: int, acknowledged: int, option: MptcpOption) -> bytes:
    segment = _tcp(source.port, target.port, flags, sequence, acknowledged, emit(option))
    return target.mac + source.mac + _IPV4 + _ipv4(source.address, target.address, segment)


_IPV4 = b"\x08\x00"


def _tcp(source: int, destination: int, flags: Flags, sequence: int, acknowledged: int, options: bytes) -> bytes:
    """A TCP header with its options, checksum still 0 (RFC 9293 section 3.1)."""
    offset = (20 + len(options)) // 4 << 12
    fixed = (source, destination, sequence, acknowledged, offset | flags, _WINDOW, 0, 0)
    return struct.pack("!HHIIHHHH", *fixed) + options


def _ipv4(source: bytes, destination: bytes, segment: bytes) -> bytes:
    """A packet with both checksums (RFC 791 section 3.1, RFC 9293 section 3.1)."""
    pseudo = source + destination + struct.pack("!BBH", 0, 6, len(segment))
    segment = segment[:16] + _checksum(pseudo + segment) + segment[18:]
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(segment), 0, 0x4000, _LIVES, 6, 0, source, destination)
    return header[:10] + _checksum(header) + header[12:] + segment


def _checksum(data: bytes) -> bytes:
    """RFC 1071; ``data`` has an even length here."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    folded: int = total + (total >> 16)
    return (~folded & 0xFFFF).to_bytes(2)
