#!/usr/bin/env python3
"""An MPTCP sender lets its fast path idle, since what lies unsent there makes a slow one look as quick.

    mptcp_idle_fast_path.py [BYTES...]     root; needs iproute2 and ethtool

    sender ==fast, 50 Mbit/s, 20 ms================ receiver     namespaces of its own making; between them a
           ==slow, 50 Mbit/s, 200 ms, 1 % lost=====              process for each cable, which delays frames

Sends for twelve seconds: by TCP over the fast path, and by MPTCP over both, as the kernel is and with each of BYTES
(16384 unless told otherwise) as net.ipv4.tcp_notsent_lowat. Prints Mbit/s from the third second on, and for how much of
that time less than a tenth of what it can carry passed the fast path.
"""

import ctypes
import os
import random
import select
import socket
import subprocess
import sys
import time
from collections import deque
from multiprocessing import Array
from pathlib import Path

MPTCP, CLONE_NEWNET, OUTGOING = 262, 0x40000000, 4  # linux/if_packet.h
RATE, SECONDS, SLOW_START, SLICE = 50e6, 12.0, 3.0, 0.1
CABLES = {"fast": (0.01, 0.0, 0.03), "slow": (0.1, 0.01, 0.2)}  # seconds one way, share lost, seconds of queue
UNLIMITED = 4294967295
SET_UP = """
for ns in if-sender if-cable if-receiver; do ip netns add $ns; ip -n $ns link set lo up; done
for place in 1 2; do
    ip link add path$place netns if-sender type veth peer name left$place netns if-cable
    ip link add path$place netns if-receiver type veth peer name right$place netns if-cable
    for end in 1.if-sender 2.if-receiver; do
        ip -n ${end#*.} address add 10.0.$place.${end%.*}/24 dev path$place; ip -n ${end#*.} link set path$place up
        ip netns exec ${end#*.} ethtool -K path$place tx off tso off gso off gro off >/dev/null
    done
    ip -n if-cable link set left$place up; ip -n if-cable link set right$place up
done
ip -n if-sender mptcp endpoint add 10.0.2.1 dev path2 subflow
ip -n if-sender mptcp limits set subflows 1
for ns in if-sender if-receiver; do
    ip netns exec $ns sysctl -qw net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_rmem="4096 131072 33554432"
done
ip -n if-sender route add 10.0.1.2/32 dev path1; ip netns exec if-receiver ip mptcp limits set subflows 1
ip -n if-sender rule add from 10.0.2.1 lookup 2; ip -n if-sender route add default via 10.0.2.2 dev path2 table 2
"""
CLEAN_UP = "for ns in if-sender if-cable if-receiver; do ip netns delete $ns; done"


def enter(namespace: str) -> None:
    """From now on this process is there."""
    with Path(f"/run/netns/if-{namespace}").open() as file:
        if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(f"setns {namespace}")


def cable(place: int, delay: float, lost: float, queue: float, passed: "Array[float]") -> None:
    """Passes frames on, each way at the rate and as late as it has to be; adds up what passes to the right by time."""
    enter("cable")
    ends = []
    for side in ("left", "right"):
        ends.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        ends[-1].bind((f"{side}{place}", 0))
    waiting: list[deque[tuple[float, bytes]]] = [deque(), deque()]
    free = [0.0, 0.0]
    while True:
        due = min((each[0][0] for each in waiting if each), default=None)
        now = time.monotonic()
        for end in select.select(ends, [], [], None if due is None else max(0, due - now))[0]:
            frame, (_, _, kind, *_) = end.recvfrom(2000)
            way, now = ends.index(end), time.monotonic()
            begun = max(now, free[way])
            if kind == OUTGOING or begun - now > queue or (way == 0 and random.random() < lost):
                continue
            free[way] = begun + 8 * len(frame) / RATE
            waiting[way].append((free[way] + delay, frame))
        now = time.monotonic()
        for way, frames in enumerate(waiting):
            while frames and frames[0][0] <= now:
                frame = frames.popleft()[1]
                ends[1 - way].send(frame)
                if way == 0:
                    passed[int(now / SLICE) % len(passed)] += len(frame)


def receiver(listener: socket.socket) -> None:
    """Reads all that comes, of one connection after the other."""
    while True:
        connection, _ = listener.accept()
        while connection.recv(1 << 20):
            pass


def send(protocol: int, passed: "Array[float]") -> str:
    """By one connection; what came of it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as connection:
        connection.connect(("10.0.1.2", 9000 + (protocol == MPTCP)))
        connection.settimeout(SECONDS)
        began, piece = time.monotonic(), bytes(1 << 18)
        while time.monotonic() < began + SECONDS:
            connection.send(piece)
    first, last = (int((began + seconds) / SLICE) for seconds in (SLOW_START, SECONDS))
    slices = [sum(path[each % len(path)] for path in passed) for each in range(first, last)]
    fast = [passed[0][each % len(passed[0])] for each in range(first, last)]
    idle = sum(8 * each < 0.1 * RATE * SLICE for each in fast) / len(fast)
    return f"{8 * sum(slices) / len(slices) / SLICE / 1e6:5.1f} Mbit/s, the fast path idle for {idle:4.0%}"


def main(marks: list[int]) -> None:
    """All of them, each after a pause in which queues run empty."""
    children = []
    passed = [Array("d", 10_000, lock=False) for _ in CABLES]
    try:
        subprocess.run(["sh", "-ec", SET_UP], check=True)
        enter("receiver")
        listeners = []
        for protocol, port in ((socket.IPPROTO_TCP, 9000), (MPTCP, 9001)):
            listeners.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
            listeners[-1].bind(("10.0.1.2", port))
            listeners[-1].listen()
        works = [lambda listener=each: receiver(listener) for each in listeners]
        works += [lambda given=(n, *CABLES[name], passed[n - 1]): cable(*given) for n, name in enumerate(CABLES, 1)]
        for work in works:
            children.append(os.fork())
            if not children[-1]:
                work()
        enter("sender")
        print("TCP, fast path alone:          ", send(socket.IPPROTO_TCP, passed), flush=True)
        for mark in (UNLIMITED, *marks):
            Path("/proc/sys/net/ipv4/tcp_notsent_lowat").write_text(str(mark))
            time.sleep(2)
            name = "as it is" if mark == UNLIMITED else f"notsent_lowat {mark}"
            print(f"MPTCP, {name:24}", send(MPTCP, passed), flush=True)
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        subprocess.run(["sh", "-c", CLEAN_UP], check=False)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [16384])
