"""How long a converter holds what passes through it, by the kernel's timestamps of packets on both of its sides.

    python -m experiments.probes.conversion CLIENT_SIDE SERVER_SIDE

Runs on the gateway with the names of the two interfaces, prints ``ready``, and records TCP packets by one packet
socket, so that one clock stamps all. On SIGTERM prints one JSON object of lists, all in microseconds:

    {"syn": [...], "own_syn": [...], "first_data": [...], "data": [...], "reply": [...], "lost": COUNT}

``syn``: from a client's SYN in to the SYN out to the server. ``own_syn``: the same without the time in which the
converter waits for the client, from its SYN/ACK out to the packet that made it connect. ``first_data``: from a
connection's first segment with data in to the first one out. ``data``: the same for the connection's later requests.
``reply``: from the answer's first segment in to the first one out. Only one connection may be in use at a time.
"""

import json
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from experiments.probes import capture
from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction

_ETHERNET, _IPV6_HEADER, _SNAP = 14, 40, 128
_SYN, _ACK = 0x02, 0x10
_LOOK = 0.02
"""Seconds between two looks: a process that woke up for each packet would disturb what it measures."""


@dataclass(frozen=True)
class Packet:
    """A TCP packet: nanoseconds since 1970, where it was seen, and whether it has data, or is a SYN or a SYN/ACK."""

    at: int
    client_side: bool
    outgoing: bool
    has_data: bool
    is_syn: bool
    is_syn_ack: bool = False


@dataclass
class Conversions:
    """Microseconds."""

    syn: list[float] = field(default_factory=list)
    own_syn: list[float] = field(default_factory=list)
    first_data: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    reply: list[float] = field(default_factory=list)


def conversions(packets: Iterable[Packet]) -> Conversions:
    """What ``packets``, in their order, show of one connection after the other."""
    found = Conversions()
    everything = list(packets)
    _find_syns(everything, found)
    _find_data(everything, found)
    return found


def _find_syns(packets: Iterable[Packet], found: Conversions) -> None:
    syn = accepted = asked = None
    for packet in packets:
        to_server = packet.client_side != packet.outgoing
        match packet, packet.client_side, to_server:
            case Packet(is_syn=True), True, True:
                syn, accepted, asked = packet.at, None, None
            case Packet(is_syn_ack=True), True, False:
                accepted = packet.at
            case _, True, True:
                asked = packet.at
            case Packet(is_syn=True), False, True if syn is not None:
                found.syn.append((packet.at - syn) / 1000)
                if accepted is not None and asked is not None:
                    found.own_syn.append((accepted - syn + packet.at - asked) / 1000)
                syn = None


def _find_data(packets: Iterable[Packet], found: Conversions) -> None:
    data = reply = None
    first = answered = True
    for packet in packets:
        to_server = packet.client_side != packet.outgoing
        match packet, packet.client_side, to_server:
            case Packet(is_syn=True), True, True:
                data, first = None, True
            case Packet(has_data=True), True, True if data is None:
                data, reply, answered = packet.at, None, False
            case Packet(has_data=True), False, True if data is not None:
                (found.first_data if first else found.data).append((packet.at - data) / 1000)
                data, first = None, False
            case Packet(has_data=True), False, False if reply is None:
                reply = packet.at
            case Packet(has_data=True), True, False if reply is not None and not answered:
                found.reply.append((packet.at - reply) / 1000)
                answered = True


def packet(frame: bytes, at: int, client_side: bool, outgoing: bool) -> Packet:
    """What ``frame``, Ethernet with IP and TCP, tells; frames may be cut behind the TCP header's first 20 bytes."""
    if frame[_ETHERNET] >> 4 == 6:
        (payload,) = struct.unpack_from("!H", frame, _ETHERNET + 4)
        network, total = _IPV6_HEADER, _IPV6_HEADER + payload
    else:
        (total,) = struct.unpack_from("!H", frame, _ETHERNET + 2)
        network = 4 * (frame[_ETHERNET] & 0x0F)
    transport = 4 * (frame[_ETHERNET + network + 12] >> 4)
    kind = frame[_ETHERNET + network + 13] & (_SYN | _ACK)
    return Packet(at, client_side, outgoing, total > network + transport, kind == _SYN, kind == _SYN | _ACK)


def _tcp_filter() -> tuple[Instruction, ...]:
    """A classic BPF program that takes TCP over IPv4, and over IPv6 without extension headers."""
    return (
        Instruction(bpf.LOAD_WORD, bpf.PROTOCOL),
        Instruction(bpf.JUMP_EQUAL, 0x0800, no=2),
        Instruction(bpf.LOAD_BYTE, bpf.NET + 9),
        Instruction(bpf.JUMP_EQUAL, socket.IPPROTO_TCP, yes=3, no=4),
        Instruction(bpf.JUMP_EQUAL, 0x86DD, no=3),
        Instruction(bpf.LOAD_BYTE, bpf.NET + 6),
        Instruction(bpf.JUMP_EQUAL, socket.IPPROTO_TCP, no=1),
        Instruction(bpf.RETURN, _SNAP),
        Instruction(bpf.RETURN, 0),
    )


def main(client_side: str, server_side: str) -> None:
    """Record until SIGTERM, then tell."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    seen: list[Packet] = []
    with capture.opened(_tcp_filter()) as watcher:
        watcher.setblocking(False)
        print("ready", flush=True)
        while not stopped:
            time.sleep(_LOOK)
            seen += _waiting(watcher, {client_side: True, server_side: False})
        lost = capture.lost(watcher)
    print(json.dumps(asdict(conversions(sorted(seen, key=lambda each: each.at))) | {"lost": lost}), flush=True)


def _waiting(watcher: socket.socket, sides: dict[str, bool]) -> Iterable[Packet]:
    while True:
        try:
            at, frame, interface, kind = capture.receive(watcher)
        except BlockingIOError:
            return
        if interface in sides:
            yield packet(frame, at, sides[interface], kind == capture.OUTGOING)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
