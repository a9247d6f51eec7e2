#!/usr/bin/env python3
"""MPTCP delivers bytes in the wrong place when a join is finished late.

    mptcp_wrong_bytes.py [TRANSFERS]       root; default 1000

A client with two veth cables to a server, in two network namespaces of its own making. Each transfer is a connection
with a second subflow; both ends send 400,000 bytes at once and read until the end; the server compares what came with
what was sent. Six transfers at a time. Prints where bytes were wrong, and MPTCP's counters at the server.
"""

import ctypes
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SIZE, AT_A_TIME, PORT = 400_000, 6, 9000
MPTCP, CLONE_NEWNET = 262, 0x40000000
UP, DOWN = (random.Random(seed).randbytes(SIZE) for seed in (1, 2))
SET_UP = """
ip netns add wb-client; ip netns add wb-server
for ns in wb-client wb-server; do
  ip netns exec $ns sysctl -qw net.mptcp.enabled=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
  ip -n $ns mptcp limits set subflows 2 add_addr_accepted 2
done
for n in 1 2; do
  ip link add c$n netns wb-client type veth peer name s$n netns wb-server
  ip -n wb-client address add 10.0.$n.2/24 dev c$n; ip -n wb-client link set c$n up
  ip -n wb-server address add 10.0.$n.1/24 dev s$n; ip -n wb-server link set s$n up
done
ip -n wb-client route add 10.0.1.1 via 10.0.2.1 dev c2 table 2
ip -n wb-client rule add from 10.0.2.2 lookup 2
ip -n wb-client mptcp endpoint add 10.0.2.2 dev c2 subflow
"""
CLEAN_UP = "ip netns delete wb-client; ip netns delete wb-server"


def enter(namespace: str) -> None:
    """From now on this process is there."""
    with Path(f"/run/netns/{namespace}").open() as file:
        if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(f"setns {namespace}")


def exchange(connection: socket.socket, content: bytes) -> bytes:
    """Sends all of it in pieces while as much is read."""

    def send() -> None:
        at = 0
        while at < SIZE:
            at += connection.send(content[at : at + random.randint(1, 65535)])

    sender, got = threading.Thread(target=send), bytearray()
    sender.start()
    while len(got) < SIZE and (piece := connection.recv(65536)):
        got += piece
    sender.join()
    return bytes(got)


def serve(listener: socket.socket) -> None:
    """Compares what comes on each connection."""
    while True:
        connection, _ = listener.accept()
        with connection:
            got = exchange(connection, DOWN)
            if got != UP:
                wrong = [at for at in range(SIZE) if UP[at] != got[at]]
                first, end = wrong[0], wrong[-1] + 1
                print(f"bytes {first} to {end} hold those from {UP.find(got[first:end])} on", flush=True)
            connection.recv(1)


def ask(port: int, transfers: int) -> None:
    """So many connections, one after the other."""
    for _ in range(transfers):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as connection:
            connection.connect(("10.0.1.1", port))
            assert exchange(connection, UP) == DOWN


def each(function: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
    """One thread for each."""
    threads = [threading.Thread(target=function, args=one) for one in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def server(ready: int) -> None:
    """Listens on as many ports as there are transfers at a time."""
    enter("wb-server")
    listeners = [socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) for _ in range(AT_A_TIME)]
    for number, listener in enumerate(listeners):
        listener.bind(("10.0.1.1", PORT + number))
        listener.listen()
    os.write(ready, b"!")
    each(serve, [(listener,) for listener in listeners])


def main(transfers: int) -> None:
    """Both ends, and what the server's kernel counted."""
    ready, write = os.pipe()
    try:
        subprocess.run(["sh", "-ec", SET_UP], check=True)
        child = os.fork()
        if not child:
            server(write)
        os.read(ready, 1)
        enter("wb-client")
        each(ask, [(PORT + number, -(-transfers // AT_A_TIME)) for number in range(AT_A_TIME)])
        os.kill(child, 15)
        subprocess.run(
            "ip netns exec wb-server nstat -as | grep -E 'DSSNotMatching|MPJoinAckRx'", shell=True, check=False
        )
    finally:
        subprocess.run(["sh", "-c", CLEAN_UP], check=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
