#!/usr/bin/env python3
"""An MPTCP receiver stands still for good: what came out of order fills its buffer, and what is missing stays outside.

    mptcp_receiver_stands_still.py [SIZE] [--room]          root

    client ==fast, first== server          veth, in namespaces of its own making; nftables

The session begins over the first path and joins over the fast one. Then the first path loses everything for a second,
while the server sends 20,000 messages of SIZE bytes (20 without), each at once. Prints what the client read, and
its receive buffer. With --room the client then sets SO_RCVBUFFORCE, and reads on.
"""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

MPTCP, CLONE_NEWNET, SO_RCVBUFFORCE, SO_MEMINFO = 262, 0x40000000, 33, 55
MESSAGES, AWAY, PATIENCE = 20_000, 1.0, 5.0
SET_UP = """
for ns in ss-client ss-server; do ip netns add $ns; ip -n $ns mptcp limits set subflows 2; done
for n in 1 2; do
    ip link add path$n netns ss-client type veth peer name path$n netns ss-server
    ip -n ss-client address add 10.0.$n.2/24 dev path$n; ip -n ss-server address add 10.0.$n.1/24 dev path$n
    ip -n ss-client link set path$n up; ip -n ss-server link set path$n up
done
ip -n ss-client rule add from 10.0.1.2 table 1; ip -n ss-client route add default via 10.0.1.1 table 1
ip -n ss-client mptcp endpoint add 10.0.1.2 dev path1 subflow
ip netns exec ss-server sysctl -qw net.ipv4.tcp_notsent_lowat=16384
"""
LOSE = "nft 'table ip lose { chain out { type filter hook output priority raw; oif path2 drop; }; }'"
DELIVER = "nft delete table ip lose"
CLEAN_UP = "for ns in ss-client ss-server; do ip netns delete $ns; done"


def enter(namespace: str) -> None:
    """From now on this process is there."""
    with Path(f"/run/netns/ss-{namespace}").open() as file:
        if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(f"setns {namespace}")


def serve(listener: socket.socket, size: int) -> None:
    """Messages, the first of which are lost at first."""
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(connection.recv(1))  # the client joins once it has heard of MPTCP
    time.sleep(0.5)
    subprocess.run(LOSE, shell=True, check=True)
    if os.fork():
        for _ in range(MESSAGES):
            connection.sendall(bytes(size))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    else:
        time.sleep(AWAY)
        subprocess.run(DELIVER, shell=True, check=True)


def read(connection: socket.socket, whole: int, before: int = 0) -> int:
    """Reads to the end, or as far as anything comes, and says how far that was."""
    count = before
    try:
        while piece := connection.recv(1 << 18):
            count += len(piece)
    except TimeoutError:
        print(f"nothing for {PATIENCE:g} s: ", end="")
    taken, most = struct.unpack_from("2I", connection.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
    print(f"{count} of {whole} bytes read; {taken} of {most} bytes of memory taken", flush=True)
    return count


def main(size: int, room: bool) -> None:
    """Both of them."""
    child = 0
    try:
        subprocess.run(["sh", "-ec", SET_UP], check=True)
        enter("server")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as listener:
            listener.bind(("10.0.2.1", 9000))
            listener.listen()
            child = os.fork()
            if not child:
                serve(listener, size)
                os._exit(0)
        enter("client")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(("10.0.2.1", 9000))
            connection.sendall(b"?")
            connection.recv(1)
            count = read(connection, MESSAGES * size)
            if room:
                connection.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
                read(connection, MESSAGES * size, count)
    finally:
        if child:
            os.kill(child, 9)
        subprocess.run(["sh", "-c", CLEAN_UP], check=False)


if __name__ == "__main__":
    sizes = [int(each) for each in sys.argv[1:] if each != "--room"]
    main(sizes[0] if sizes else 20, "--room" in sys.argv[1:])
