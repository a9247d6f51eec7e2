"""Measures, beside the throttler, how long it takes from each join to its element in the throttler's map.

    python -m experiments.probes.installs INTERFACE PORT

Runs on the gateway, prints ``ready``, records the third ACKs of joins to PORT (RFC 8684 section 3.2) that come in on
the interface, with the kernel's timestamps (packet(7), SO_TIMESTAMPNS), and nftables' own notifications of new
elements, with the time at which they arrived here. On SIGTERM it matches the two by their 4-tuples, and prints one JSON
object:

    {"joins": [[UNIX TIME, SECONDS or null], ...], "lost": COUNT}

``lost`` counts third ACKs and notification overruns that the probe itself missed. IPv4 alone, and third ACKs as Linux
writes them: time stamps before MP_JOIN.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from time import time_ns

from experiments.probes import capture
from experiments.probes.nft_events import FourTuple, new_subflows, notifications
from tributary.daemons.signals import caught
from tributary.kernel import bpf
from tributary.kernel.bpf import Instruction
from tributary.kernel.netlink import Netlink

_SNAP = 64
_ADDRESSES, _PORTS = 14 + 12, 14 + 20  # in an Ethernet frame with an IPv4 header without options

Join = tuple[int, FourTuple]
"""Nanoseconds since 1970, and the 4-tuple as the gateway sends."""


def join_ack_filter(port: int) -> tuple[Instruction, ...]:
    """A classic BPF program that takes the third ACKs of joins to ``port``."""
    options = 20 + 12  # bytes of the TCP header before MP_JOIN: RFC 7323's time stamps come first
    checks = (
        (Instruction(bpf.LOAD_WORD, bpf.PROTOCOL), 0x0800),
        (Instruction(bpf.LOAD_BYTE, bpf.NET + 9), socket.IPPROTO_TCP),
        (Instruction(bpf.LOAD_HALF, bpf.NET + 22), port),
        (Instruction(bpf.LOAD_HALF, bpf.NET + 20 + options), 30 << 8 | 24),
        (Instruction(bpf.LOAD_BYTE, bpf.NET + 20 + options + 2), 0x10),
    )
    steps: list[Instruction] = []
    for number, (load, value) in enumerate(checks):
        to_the_end = 2 * (len(checks) - number - 1) + 1
        steps += [load, Instruction(bpf.JUMP_EQUAL, value, no=to_the_end)]
    return (*steps, Instruction(bpf.RETURN, _SNAP), Instruction(bpf.RETURN, 0))


def main(interface: str, port: int) -> None:
    """Record until SIGTERM, then tell."""
    _go_first()
    acks_alone = join_ack_filter(port)
    with capture.opened(acks_alone, interface) as acks, notifications() as installs, caught(signal.SIGTERM) as stop:
        print("ready", flush=True)
        frames, datagrams, overruns = _record(acks, installs, stop)
        lost = overruns + capture.lost(acks)
    added = [(time, subflow) for time, datagram in datagrams for subflow in new_subflows(datagram)]
    print(json.dumps({"joins": latencies(map(_join, frames), added), "lost": lost}), flush=True)


def latencies(joins: Iterable[Join], added: Iterable[Join]) -> list[tuple[float, float | None]]:
    """Each join's Unix time, and the seconds from it to the first element after it; None if there was none.

    An ACK that was sent again is no second join; a 4-tuple that is used again is one after its element.
    """
    elements: dict[FourTuple, list[int]] = {}
    for time, subflow in added:
        elements.setdefault(subflow, []).append(time)
    found: list[tuple[float, float | None]] = []
    until: dict[FourTuple, float] = {}
    for time, subflow in sorted(joins):
        if time <= until.get(subflow, 0):
            continue
        installed = next((at for at in elements.get(subflow, ()) if at > time), None)
        until[subflow] = float("inf") if installed is None else installed
        found.append((time / 1e9, None if installed is None else (installed - time) / 1e9))
    return found


def _go_first() -> None:
    """The notifications' times are only as good as this process is prompt; it takes little of the processor."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def _record(
    acks: socket.socket, installs: Netlink, stop: socket.socket
) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]], int]:
    """Frames with the kernel's times, datagrams with the times of their arrival, and how often some were lost."""
    frames: list[tuple[int, bytes]] = []
    datagrams: list[tuple[int, bytes]] = []
    watched: list[Netlink | socket.socket] = [installs, acks, stop]
    overruns = 0
    while True:
        ready = select.select(watched, (), ())[0]
        if installs in ready:
            for datagram in installs.queued("notifications"):
                if datagram is None:
                    overruns += 1
                else:
                    datagrams.append((time_ns(), datagram))
        if acks in ready:
            frames.append(capture.receive(acks)[:2])
        if ready == [stop]:
            return frames, datagrams, overruns


def _join(record: tuple[int, bytes]) -> Join:
    time, frame = record
    client, gateway = (str(ip_address(frame[at : at + 4])) for at in (_ADDRESSES, _ADDRESSES + 4))
    client_port, gateway_port = struct.unpack_from("!HH", frame, _PORTS)
    return time, (gateway, gateway_port, client, client_port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
