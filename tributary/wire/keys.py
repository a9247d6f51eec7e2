"""What a session's keys give: the token that names it, and the proofs that let a subflow join it."""

import hashlib
import hmac

from tributary.wire.options import HMAC_IN_ACK, HMAC_IN_ADD_ADDR


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
