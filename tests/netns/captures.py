"""Packets that come to a node, from packet(7), and the TCP streams that they make."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.testbed.node import Node
from tests.netns.world import socket_at

ETH_P_IP, ETH_P_ALL = 0x0800, 0x0003
_SOL_PACKET, _PACKET_STATISTICS, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 263, 6, 33, 35
_LONGEST = 1 << 16
"""Bytes of a packet, also of one that the kernel put together from several (GRO)."""
_SYN = 0x02


@dataclass
class Capture:
    """Each packet so far, with its interface and the kernel's clock in nanoseconds; at the end how many were lost."""

    packets: list[tuple[str, int, bytes]] = field(default_factory=list)
    lost: int = 0


@contextmanager
def capturing(
    node: Node, kind: int = socket.SOCK_DGRAM, protocol: int = ETH_P_IP, size: int = _LONGEST
) -> Iterator[Capture]:
    """Capture the first bytes of each packet for the length of the block, with its link layer if it is SOCK_RAW."""
    capture, over = Capture(), threading.Event()
    watcher = socket_at(node, socket.AF_PACKET, kind, socket.htons(protocol))
    watcher.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    watcher.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    watcher.settimeout(0.1)

    def read() -> None:
        while True:
            try:
                packet, [(_, _, stamp)], _, (interface, *_) = watcher.recvmsg(size, socket.CMSG_SPACE(16))
            except TimeoutError:
                if over.is_set():  # and nothing waits any more
                    return
                continue
            seconds, nanoseconds = struct.unpack("qq", stamp)
            capture.packets.append((interface, seconds * 1_000_000_000 + nanoseconds, packet))

    reader = threading.Thread(target=read, daemon=True)
    with watcher:
        reader.start()
        try:
            yield capture
        finally:
            over.set()
            reader.join()
        capture.lost = struct.unpack("II", watcher.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]


@dataclass
class Stream:
    """One direction of a connection between two ``address:port``; ``start`` is the number of its first byte."""

    interface: str
    source: str
    destination: str
    start: int
    content: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[int, range]] = field(default_factory=list)
    """When a segment came, and what of the content it was."""

    def put(self, sequence: int, payload: bytes, when_ns: int) -> None:
        """Add a segment, in any order and however often it came."""
        place = (sequence - self.start) % (1 << 32)
        end = place + len(payload)
        self.content.extend(bytes(max(0, end - len(self.content))))
        self.content[place:end] = payload
        self.arrivals.append((when_ns, range(place, end)))

    def came_ns(self, place: int) -> int:
        """When a byte of the content came first."""
        return min(when_ns for when_ns, places in self.arrivals if place in places)


def streams(capture: Capture, *but: str) -> list[Stream]:
    """Those with payload by all interfaces but some; IPv4 without fragments, no longer than 4 GB each."""
    found: dict[tuple[str, str], Stream] = {}
    for interface, when_ns, packet in capture.packets:
        if interface in but or packet[9] != socket.IPPROTO_TCP:
            continue
        network = 4 * (packet[0] & 0x0F)
        source, destination, sequence = struct.unpack_from("!HHI", packet, network)
        ends = f"{socket.inet_ntoa(packet[12:16])}:{source}", f"{socket.inet_ntoa(packet[16:20])}:{destination}"
        if packet[network + 13] & _SYN:
            found[ends] = Stream(interface, *ends, sequence + 1)
        payload = packet[network + 4 * (packet[network + 12] >> 4) : struct.unpack_from("!H", packet, 2)[0]]
        if payload and ends in found:
            found[ends].put(sequence, payload, when_ns)
    return [each for each in found.values() if each.content]
