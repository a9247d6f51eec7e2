"""A captured packet's bytes to a Segment, by Scapy's layers.

Only the layers that are needed are imported: scapy.all would load several hundred modules.
"""

from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from throttler.wire.segments import Flags, Segment

_FIXED_HEADER = 20
"""Bytes of a TCP header before its options (RFC 9293 section 3.1)."""

# No dissecting of what TCP carries: it is cut off by the capture filter's snap length anyway.
conf.layers.filter([Ether, Dot1Q, IP, IPv6, TCP])


def segment(packet: Packet, time: int, interface: str, outgoing: bool) -> Segment | None:
    """``packet`` as a segment, or None if it is none that the throttler understands.

    Scapy keeps unknown options as they are but takes known ones apart, hence the raw bytes from the header's own.
    """
    network = packet.getlayer(IP) or packet.getlayer(IPv6)
    transport = network.payload if network is not None else None
    if not isinstance(transport, TCP):
        return None
    header = transport.original[: transport.dataofs * 4]
    return Segment(
        time=time,
        interface=interface,
        outgoing=outgoing,
        source=network.src,
        source_port=transport.sport,
        destination=network.dst,
        destination_port=transport.dport,
        flags=Flags(int(transport.flags) & int(Flags.FIN | Flags.SYN | Flags.RST | Flags.ACK)),
        options=header[_FIXED_HEADER:],
    )
