"""Puts the TCP streams together that come in by interfaces, from the packets themselves.

    python -m tests.netns.stream_capture BYTES INTERFACE...

Prints ``ready``, and on SIGTERM one JSON object: for each stream with payload where it came in, from and to which
``address:port``, the SHA-256 of its last BYTES, and when the first of these came, in nanoseconds of the kernel's clock;
and how many packets the capture lost. IPv4 without fragments, no longer than 4 GB each.
"""

import hashlib
import json
import signal
import socket
import struct
import sys
from dataclasses import dataclass, field

_ETH_P_IP = 0x0800
_SOL_PACKET, _PACKET_STATISTICS, _SO_RCVBUFFORCE = 263, 6, 33
_SO_TIMESTAMPNS = 35
_LONGEST = 1 << 16
"""Bytes of a packet, also of one that the kernel put together from several (GRO)."""
_SYN = 0x02


@dataclass
class Stream:
    """One direction of a connection; ``start`` is the sequence number of its first byte."""

    interface: str
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


def main(size: int, interfaces: list[str]) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    streams: dict[tuple[str, str], Stream] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)) as watcher:
        watcher.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        watcher.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        watcher.settimeout(0.1)
        print("ready", flush=True)
        while True:
            try:
                packet, [(_, _, stamp)], _, (interface, *_) = watcher.recvmsg(_LONGEST, socket.CMSG_SPACE(16))
            except TimeoutError:
                if stopped:  # and nothing waits any more
                    break
                continue
            seconds, nanoseconds = struct.unpack("qq", stamp)
            if interface in interfaces and packet[9] == socket.IPPROTO_TCP:
                note(packet, interface, seconds * 1_000_000_000 + nanoseconds, streams)
        lost = struct.unpack("II", watcher.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
    told = [
        {
            "interface": stream.interface,
            "from": source,
            "to": destination,
            "sha256": hashlib.sha256(stream.content[-size:]).hexdigest(),
            "came_ns": stream.came_ns(max(0, len(stream.content) - size)),
        }
        for (source, destination), stream in streams.items()
        if stream.content
    ]
    print(json.dumps({"lost": lost, "streams": told}))


def note(packet: bytes, interface: str, when_ns: int, streams: dict[tuple[str, str], Stream]) -> None:
    """Add a segment to its stream, which begins with a SYN."""
    network = 4 * (packet[0] & 0x0F)
    source, destination, sequence = struct.unpack_from("!HHI", packet, network)
    ends = f"{socket.inet_ntoa(packet[12:16])}:{source}", f"{socket.inet_ntoa(packet[16:20])}:{destination}"
    if packet[network + 13] & _SYN:
        streams[ends] = Stream(interface, sequence + 1)
    payload = packet[network + 4 * (packet[network + 12] >> 4) : struct.unpack_from("!H", packet, 2)[0]]
    if payload and ends in streams:
        streams[ends].put(sequence, payload, when_ns)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
