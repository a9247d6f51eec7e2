"""One TCP segment as a source gives it."""

import socket
from dataclasses import dataclass
from enum import IntFlag

from tributary.mptcp.four_tuple import FourTuple


class Flags(IntFlag):
    """The bits of the TCP header's flags octet that handshakes use (RFC 9293 section 3.1)."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    ACK = 0x10


def client_of(address: str) -> str:
    """Who has ``address``: itself, or its /64 of IPv6, which a client has for its own (RFC 7934)."""
    if ":" not in address:
        return address
    prefix = socket.inet_pton(socket.AF_INET6, address)[:8]
    return f"{socket.inet_ntop(socket.AF_INET6, prefix + bytes(8))}/64"


@dataclass(frozen=True, slots=True)
class Segment:
    """What a handshake needs of one segment.

    ``time`` is in nanoseconds of the monotonic clock. ``outgoing`` says that this host sent or forwarded it out of
    ``interface``.
    ``options`` are the option bytes of the TCP header as they were on the wire.
    """

    time: int
    interface: str
    outgoing: bool
    source: str
    source_port: int
    destination: str
    destination_port: int
    flags: Flags
    options: bytes

    @property
    def subflow(self) -> FourTuple:
        """The 4-tuple as seen from this host: the side that sends out of the client-side interface is local."""
        if self.outgoing:
            return FourTuple(self.source, self.source_port, self.destination, self.destination_port)
        return FourTuple(self.destination, self.destination_port, self.source, self.source_port)
