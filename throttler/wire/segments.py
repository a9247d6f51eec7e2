"""One TCP segment as a source gives it, and the 4-tuple that names a subflow."""

from dataclasses import dataclass
from enum import IntFlag


class Flags(IntFlag):
    """The bits of the TCP header's flags octet that handshakes use (RFC 9293 section 3.1)."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    ACK = 0x10


@dataclass(frozen=True, order=True)
class FourTuple:
    """A subflow seen from the gateway; addresses are text as inet_ntop(3) writes it."""

    local: str
    local_port: int
    remote: str
    remote_port: int

    @property
    def is_ipv6(self) -> bool:
        """Whether the addresses are IPv6."""
        return ":" in self.local

    def __str__(self) -> str:
        return f"{_host(self.local)}:{self.local_port} > {_host(self.remote)}:{self.remote_port}"


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True)
class Segment:
    """What a handshake needs of one segment.

    ``time`` is in nanoseconds since 1970. ``outgoing`` says that this host sent or forwarded it out of ``interface``.
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
