"""Counts the TCP payload that comes in by interfaces, from the packets themselves.

    python -m tests.netns.payload_capture PEER_PORT INTERFACE...

Prints ``ready``, and on SIGTERM one JSON object: payload bytes by the packets' destination ``address:port``, each byte
once however often it came, and how many packets the capture lost. IPv4 without fragments, no longer than 4 GB each.
"""

import json
import signal
import socket
import struct
import sys
from collections import defaultdict
from contextlib import suppress

_ETH_P_IP = 0x0800
_SOL_PACKET, _PACKET_STATISTICS, _SO_RCVBUFFORCE = 263, 6, 33


def main(port: int, interfaces: list[str]) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    segments: defaultdict[str, dict[int, int]] = defaultdict(dict)
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)) as watcher:
        watcher.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        watcher.settimeout(0.1)
        print("ready", flush=True)
        while not stopped:
            with suppress(TimeoutError):
                packet, (interface, *_) = watcher.recvfrom(2048)
                if interface in interfaces:
                    note(packet, port, segments)
        lost = struct.unpack("II", watcher.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
    print(json.dumps({"lost": lost, "bytes": {name: sum(each.values()) for name, each in segments.items()}}))


def note(packet: bytes, port: int, segments: defaultdict[str, dict[int, int]]) -> None:
    """Add a segment from ``port``: its length by its sequence number."""
    network = 4 * (packet[0] & 0x0F)
    source, destination, sequence = struct.unpack_from("!HHI", packet, network)
    if packet[9] != socket.IPPROTO_TCP or source != port:
        return
    payload = struct.unpack_from("!H", packet, 2)[0] - network - 4 * (packet[network + 12] >> 4)
    if payload > 0:
        segments[f"{socket.inet_ntoa(packet[16:20])}:{destination}"][sequence] = payload


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
