"""Events of sessions and subflows. A session is identified by the listener's token."""

from dataclasses import dataclass
from enum import StrEnum

from tributary.mptcp.four_tuple import FourTuple


class Ended(StrEnum):
    """Why a subflow or a session ended."""

    FIN = "fin"
    RESET = "reset"
    FASTCLOSE = "fastclose"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    GONE = "gone"
    REPLACED = "replaced"
    EVICTED = "evicted"


@dataclass(frozen=True)
class SubflowEstablished:
    """A handshake was completed by a valid third ACK. ``interface`` is where the gateway's segments leave.

    ``time`` is in nanoseconds of the monotonic clock. ``backup`` is what the client asked for. Of an initial one
    ``is_own`` says that this host has begun the session.
    """

    time: int
    token: int
    subflow: FourTuple
    interface: str
    initial: bool = False
    backup: bool = False
    is_own: bool = False


@dataclass(frozen=True)
class SubflowPriority:
    """The client changed a subflow's backup flag (RFC 8684 section 3.3.8)."""

    time: int
    token: int
    subflow: FourTuple
    backup: bool


@dataclass(frozen=True)
class SubflowClosed:
    """A subflow ended; its session may continue."""

    time: int
    token: int
    subflow: FourTuple
    reason: Ended


@dataclass(frozen=True)
class SessionClosed:
    """A session ended, with all its subflows."""

    time: int
    token: int
    reason: Ended


Event = SubflowEstablished | SubflowPriority | SubflowClosed | SessionClosed
