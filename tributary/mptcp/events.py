"""What a source of events says: subflows come, change and go. A session's name is the listener's token."""

from dataclasses import dataclass
from enum import StrEnum

from tributary.mptcp.four_tuple import FourTuple


class Ended(StrEnum):
    """Why a subflow or a session is over."""

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
    """The third ACK of a handshake was right. ``interface`` is the one that the gateway's segments leave by.

    ``time`` is in nanoseconds of the monotonic clock. The first subflow of a session has address id 0 (RFC 8684
    section 3.2); ``backup`` is what the client asked for.
    """

    time: int
    token: int
    subflow: FourTuple
    interface: str
    address_id: int = 0
    initial: bool = False
    backup: bool = False


@dataclass(frozen=True)
class SubflowPriority:
    """The client changed a subflow's backup flag (RFC 8684 section 3.3.8)."""

    time: int
    token: int
    subflow: FourTuple
    backup: bool


@dataclass(frozen=True)
class SubflowClosed:
    """A subflow is over; its session may go on."""

    time: int
    token: int
    subflow: FourTuple
    reason: Ended


@dataclass(frozen=True)
class SessionClosed:
    """A session is over, with whatever subflows it had."""

    time: int
    token: int
    reason: Ended


@dataclass(frozen=True)
class AddressAnnounced:
    """The client offers another address to join (RFC 8684 section 3.4.1); for the record, nothing is decided by it."""

    time: int
    token: int
    address_id: int
    address: str
    port: int | None = None


@dataclass(frozen=True)
class AddressRemoved:
    """The client takes an address back (RFC 8684 section 3.4.2); for the record."""

    time: int
    token: int
    address_id: int


Event = SubflowEstablished | SubflowPriority | SubflowClosed | SessionClosed | AddressAnnounced | AddressRemoved
