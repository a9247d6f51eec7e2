"""What a session's keys give: the token that names it, and the proofs that let a subflow join it."""

import hashlib
import hmac
from dataclasses import dataclass

from tributary.wire.options import HMAC_IN_ACK, HMAC_IN_SYN_ACK, MpJoinAck, MpJoinSyn, MpJoinSynAck


def token(key: bytes) -> int:
    """The most significant 32 bits of the key's SHA-256 (RFC 8684 section 3.2)."""
    return int.from_bytes(hashlib.sha256(key).digest()[:4])


def join_hmac(own_key: bytes, peer_key: bytes, own_nonce: bytes, peer_nonce: bytes) -> bytes:
    """The 20 bytes by which a side of a join proves both keys (RFC 8684 section 3.2); a SYN/ACK has the first 8."""
    return hmac.digest(own_key + peer_key, own_nonce + peer_nonce, "sha256")[:HMAC_IN_ACK]


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
