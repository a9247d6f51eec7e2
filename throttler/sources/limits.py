"""How much is kept of what packets show, and what is counted."""

from dataclasses import dataclass
from enum import StrEnum

SECOND = 10**9


class Count(StrEnum):
    """Counters of events and of ignored packets."""

    SESSIONS = "sessions established"
    JOINS = "joins established"
    UNPROVEN = "joins not proven: session older than the throttler"
    TIMED_OUT = "subflows closed by one side only, and timed out"
    SILENT = "throttled subflows silent for too long"
    MALFORMED = "malformed TCP options"
    FALLBACK = "fallbacks to plain TCP"
    UNKNOWN_TOKEN = "joins with an unknown token"
    WRONG_KEY = "wrong keys"
    WRONG_HMAC = "wrong HMACs"
    UNANSWERED = "third ACKs without a SYN/ACK"
    WRONG_DIRECTION = "SYNs in the wrong direction"
    HALF_OPEN_EVICTED = "half-open handshakes evicted"
    HALF_OPEN_EXPIRED = "half-open handshakes expired"
    SESSIONS_EVICTED = "sessions evicted"
    SUBFLOWS_EVICTED = "subflows evicted"


@dataclass(frozen=True)
class Limits:
    """Entries per table, the share of them that one client may have, and nanoseconds that an entry stays."""

    half_open: int = 16_384
    half_open_of_client: int = 1024
    sessions: int = 65_536
    sessions_of_client: int = 8192
    subflows: int = 131_072
    subflows_of_client: int = 16_384
    # A SYN/ACK is sent again after 1, 3, 7, 15 and 31 seconds; then Linux gives up.
    half_open_time: int = 60 * SECOND
    # A session outlives its last subflow: break before make (RFC 8684 section 3.6).
    idle_time: int = 60 * SECOND
    # One side has closed a subflow and the other never does, or its FIN was missed.
    closing_time: int = 300 * SECOND
