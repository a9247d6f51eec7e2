"""Segments that nobody's kernel has sent."""

import socket
import struct
from collections.abc import Iterable, Sequence
from socket import AF_INET, AF_INET6

from experiments.testbed.node import Node
from tests.netns.world import socket_at

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
Place = tuple[str, int]
"""Address and port."""
NUMBERS = [number * 0x0C000000 for number in range(20)]
"""Sequence numbers of who does not know the right one."""


def segment(
    source: Place,
    destination: Place,
    flags: int,
    numbers: tuple[int, int],
    options: bytes = b"",
    offset: int | None = None,
) -> bytes:
    """A TCP segment without data, in IPv4; ``numbers`` are its sequence and acknowledgement.

    ``offset`` is that of its header in place of the true one, in words.
    """
    options += bytes(-len(options) % 4)
    ends = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    words = 5 + len(options) // 4 if offset is None else offset
    tcp = struct.pack("!HHIIBBHHH", source[1], destination[1], *numbers, words << 4, flags, 65535, 0, 0) + options
    tcp = tcp[:16] + _checksum(ends + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp)) + tcp) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0)
    return ip[:10] + _checksum(ip + ends) + ends + tcp


def forged(source: Place, destination: Place, flags: Sequence[int], numbers: Sequence[int] = NUMBERS) -> list[bytes]:
    """A segment with each of the flags and each of the numbers."""
    return [segment(source, destination, each, (number, number)) for each in flags for number in numbers]


def send(node: Node, packets: Iterable[bytes]) -> None:
    """Send packets from a node, whatever addresses they have."""
    by_ipv4, by_ipv6 = (socket_at(node, each, socket.SOCK_RAW, socket.IPPROTO_RAW) for each in (AF_INET, AF_INET6))
    with by_ipv4, by_ipv6:
        for packet in packets:
            if packet[0] >> 4 == 4:
                by_ipv4.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
            else:
                by_ipv6.sendto(packet, (socket.inet_ntop(AF_INET6, packet[24:40]), 0))


def _checksum(data: bytes) -> bytes:
    """RFC 1071, of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return (~(total + (total >> 16)) & 0xFFFF).to_bytes(2)
