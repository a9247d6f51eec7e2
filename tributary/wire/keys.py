"""What a session's keys give: the token that names it, and the proofs that let a subflow join it."""

import hashlib
import hmac
import socket
from dataclasses import dataclass

from tributary.wire.options import (
    HMAC_IN_ACK,
    HMAC_IN_ADD_ADDR,
    HMAC_IN_SYN_ACK,
    AddAddr,
    MpJoinAck,
    MpJoinSyn,
    MpJoinSynAck,
)


def token(key: bytes) -> int:
    """The most significant 32 bits of the key's SHA-256 (RFC 8684 section 3.2)."""
    return int.from_bytes(hashlib.sha256(key).digest()[:4])


def join_hmac(own_key: bytes, peer_key: bytes, own_nonce: bytes, peer_nonce: bytes) -> bytes:
    """The 20 bytes by which one side of a join proves that it knows both keys (RFC 8684 section 3.2).

    A SYN/ACK carries the first 8 of them.
    """
    return hmac.digest(own_key + peer_key, own_nonce + peer_nonce, "sha256")[:HMAC_IN_ACK]


def address_hmac(own_key: bytes, peer_key: bytes, address_id: int, address: bytes, port: int | None) -> bytes:
    """The 8 bytes by which a side proves that an announced address is its own (RFC 8684 section 3.4.1)."""
    message = bytes([address_id]) + address + (port or 0).to_bytes(2)
    return hmac.digest(own_key + peer_key, message, "sha256")[-HMAC_IN_ADD_ADDR:]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of MP_CAPABLE (RFC 8684 section 3.1)."""

    listener: bytes
    client: bytes

    def prove_listener(self, join: MpJoinSyn, answer: MpJoinSynAck) -> bool:
        """Whether the listener knows both keys: RFC 8684 section 3.2, HMAC-B, its leftmost 64 bits."""
        proof = join_hmac(self.listener, self.client, answer.sender_nonce, join.sender_nonce)
        return hmac.compare_digest(proof[:HMAC_IN_SYN_ACK], answer.hmac)

    def prove_client(self, join: MpJoinSyn, listener_nonce: bytes, ack: MpJoinAck) -> bool:
        """Whether the client does: RFC 8684 section 3.2, HMAC-A, its leftmost 160 bits."""
        return hmac.compare_digest(join_hmac(self.client, self.listener, join.sender_nonce, listener_nonce), ack.hmac)

    def prove_address(self, option: AddAddr) -> bool:
        """Whether the client announced the address: RFC 8684 section 3.4.1, its HMAC's rightmost 64 bits."""
        family = socket.AF_INET6 if ":" in option.address else socket.AF_INET
        address = socket.inet_pton(family, option.address)
        proof = address_hmac(self.client, self.listener, option.address_id, address, option.port)
        return hmac.compare_digest(proof, option.hmac or b"")
