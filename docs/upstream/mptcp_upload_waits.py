#!/usr/bin/env python3
"""An MPTCP sender waits 200 ms again and again, as the receiver tells it of data too late.

    mptcp_upload_waits.py [--rps]          root

    client --veth-- relay --veth-- sink    namespaces of its own making; MPTCP to the relay, TCP behind it

The client writes 200 MB in one connection, for eight seconds at most; the relay reads, and writes to the sink. Prints
Mbit/s, the relay's waits of more than 20 ms, and the client's retransmissions of MPTCP beside TCP's time-outs. With
--rps what each end receives is handled by a processor of its own.
"""

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

MPTCP, CLONE_NEWNET = 262, 0x40000000
WHOLE, SECONDS, LONG = 200_000_000, 8.0, 0.02
SET_UP = """
for ns in wu-client wu-relay wu-sink; do ip netns add $ns; done
ip link add right netns wu-client type veth peer name left netns wu-relay
ip link add right netns wu-relay type veth peer name left netns wu-sink
ip -n wu-client address add 10.0.1.2/24 dev right; ip -n wu-relay address add 10.0.1.1/24 dev left
ip -n wu-relay address add 10.0.2.2/24 dev right; ip -n wu-sink address add 10.0.2.1/24 dev left
ip -n wu-client link set right up; ip -n wu-relay link set left up
ip -n wu-relay link set right up; ip -n wu-sink link set left up
"""
RPS = """
ip netns exec wu-client sh -c 'echo 1 >/sys/class/net/right/queues/rx-0/rps_cpus'
ip netns exec wu-relay sh -c 'echo 2 >/sys/class/net/left/queues/rx-0/rps_cpus'
"""
CLEAN_UP = "for ns in wu-client wu-relay wu-sink; do ip netns delete $ns; done"


def enter(namespace: str) -> None:
    """From now on this process is there."""
    with Path(f"/run/netns/wu-{namespace}").open() as file:
        if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(f"setns {namespace}")


def listening(namespace: str, protocol: int, address: str) -> socket.socket:
    """A listener there."""
    enter(namespace)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.bind((address, 9000))
    listener.listen()
    return listener


def sink(listener: socket.socket) -> None:
    """Reads all that comes."""
    connection, _ = listener.accept()
    while connection.recv(1 << 20):
        pass


def relay(listener: socket.socket) -> None:
    """Passes on what comes, and tells how it went."""
    onward = socket.create_connection(("10.0.2.1", 9000))
    connection, _ = listener.accept()
    began, whole, waits = time.monotonic(), 0, 0
    while True:
        asked = time.monotonic()
        piece = connection.recv(1 << 18)
        waits += time.monotonic() - asked > LONG
        if not piece:
            break
        onward.sendall(piece)
        whole += len(piece)
    megabits = whole * 8e-6 / (time.monotonic() - began)
    print(f"{megabits:.0f} Mbit/s, {waits} waits of more than 20 ms for {whole} bytes", flush=True)


def send() -> None:
    """The client."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as connection:
        connection.connect(("10.0.1.1", 9000))
        end, piece = time.monotonic() + SECONDS, bytes(1 << 18)
        left = WHOLE
        while left > 0 and time.monotonic() < end:
            left -= connection.send(piece)


def main(rps: bool) -> None:
    """All of them, and what the client's kernel counted."""
    children = []
    try:
        subprocess.run(["sh", "-ec", SET_UP + (RPS if rps else "")], check=True)
        for serve, place in ((sink, ("sink", 0, "10.0.2.1")), (relay, ("relay", MPTCP, "10.0.1.1"))):
            listener = listening(*place)
            children.append(os.fork())
            if not children[-1]:
                serve(listener)
                os._exit(0)
        enter("client")
        send()
        for child in children:
            os.waitpid(child, 0)
        subprocess.run("nstat -asz | grep -E 'MPTCPRetrans|TCPTimeouts|TcpRetransSegs'", shell=True, check=True)
    finally:
        subprocess.run(["sh", "-c", CLEAN_UP], check=False)


if __name__ == "__main__":
    main("--rps" in sys.argv[1:])
