"""A client with two links to a gateway, each a network namespace.

    +--------+ wired              wired +---------+
    |        |.2 ------ 10.0.1.0 ----.1 |         |   fd00:0:0:1::/64, 100 Mbit/s to the client
    | client |                          | gateway |
    |        |.2 ------ 10.0.2.0 ----.1 |         |   fd00:0:0:2::/64, 20 Mbit/s each way
    +--------+ wireless        wireless +---------+

The client opens its first subflow over wired and joins over wireless.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.connections import MPTCP
from tests.netns.world import connected, eventually, listener_at, on, serving

CLIENT, GATEWAY = f"thr-client-{os.getpid()}", f"thr-gateway-{os.getpid()}"
AT_CLIENT, AT_GATEWAY = Node(CLIENT, Path()), Node(GATEWAY, Path())
LINKS = {"wired": 1, "wireless": 2}
IPV4, IPV6 = "10.0.1.1", "fd00:0:0:1::1"


_LINK = """
client:{link} 10.0.{number}.2/24 fd00:0:0:{number}::2/64 -- gateway:{link} 10.0.{number}.1/24 fd00:0:0:{number}::1/64
client: ip rule add from 10.0.{number}.2 table {number}
client: ip -6 rule add from fd00:0:0:{number}::2 table {number}
client: ip route add default via 10.0.{number}.1 dev {link} table {number}
client: ip route add default via fd00:0:0:{number}::1 dev {link} table {number}
client: ip mptcp endpoint add 10.0.{number}.2 dev {link} subflow
client: ip mptcp endpoint add fd00:0:0:{number}::2 dev {link} subflow
"""
# Both links are limited at the client, so that the gateway's interfaces are free for the throttler; wired, so that what
# is sent for the length of a test leaves processors to it.
_LIMITS = """
client gateway: ip mptcp limits set subflow 4 add_addr_accepted 4
client: tc qdisc add dev wireless root tbf rate 20mbit burst 15140b limit 150000b
client: nft add table netdev limits
""" + "".join(
    f"""
client: ip link add {link}-in up type ifb
client: tc qdisc add dev {link}-in root tbf rate {rate} burst 15140b limit 150000b
client: nft add chain netdev limits {link} {{ type filter hook ingress device {link} priority 0; }}
client: nft add rule netdev limits {link} meta protocol {{ ip, ip6 }} fwd to {link}-in
"""
    for link, rate in {"wired": "100mbit", "wireless": "20mbit"}.items()
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    network = "".join(_LINK.format(link=link, number=number) for link, number in LINKS.items()) + _LIMITS
    with standing_nodes("thr-", network, tmp_path_factory.mktemp("throttler")), serving_sizes(AT_GATEWAY):
        yield


@contextmanager
def serving_sizes(node: Node) -> Iterator[None]:
    """Serve by port 3128: send as many bytes as each line says; read as many if the number is negative, and say so."""
    block = bytes(65536)

    def serve(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            for line in stream:
                left = int(line)
                if left < 0:
                    while left:
                        left += len(stream.read(min(-left, 65536)))
                    connection.sendall(b"k")
                while left:
                    left -= connection.send(block[:left])

    with serving(listener_at(node, 3128), serve):
        yield


class Connection:
    """A node's connection to a server of sizes, with a thread for what it asks for."""

    def __init__(self, node: Node, address: str) -> None:
        self._socket = connected(node, address, 3128, protocol=MPTCP)
        self._socket.settimeout(0.1)
        self._thread = threading.Thread()
        self._left = 0
        self._over = False

    def request(self, size: int) -> None:
        """Ask for so many bytes, or begin to send them if the number is negative."""
        self._socket.sendall(f"{size}\n".encode())
        self._thread = threading.Thread(target=self._move, args=(size,), daemon=True)
        self._left = abs(size)
        self._thread.start()

    def finish(self) -> None:
        self._thread.join()
        assert self._left == 0

    def _move(self, size: int) -> None:
        block = bytes(65536)
        while self._left and not self._over and size < 0:
            with suppress(TimeoutError):
                self._left -= self._socket.send(block[: self._left])
        if size < 0:
            self._left = 1
        while self._left and not self._over:
            with suppress(TimeoutError):
                if not (came := len(self._socket.recv(min(self._left, 65536)))):
                    return
                self._left -= came

    def transfer(self, size: int) -> None:
        self.request(size)
        self.finish()

    def close(self) -> None:
        self._over = True
        if self._thread.ident:
            self._thread.join()
        self._socket.close()


@contextmanager
def connection(address: str = IPV4, node: Node = AT_CLIENT) -> Iterator[Connection]:
    client = Connection(node, address)
    try:
        # A join comes after the first data (RFC 8684 section 3.1).
        client.transfer(1000)
        yield client
    finally:
        client.close()


def end_connections(seconds: float = 5.0) -> None:
    """End what the test before left, which would be found and held.

    A connection has ``seconds`` to end by itself. One whose client is gone without the gateway having heard of it,
    since nothing sends a lost reset again, would stay for good.
    """
    deadline = time.monotonic() + seconds
    while established() and time.monotonic() < deadline:
        time.sleep(0.02)
    on(GATEWAY, "ss -HtnK state established sport = 3128")
    eventually(lambda: not established())


def established() -> int:
    """How many subflows the gateway has."""
    return len(on(GATEWAY, "ss -Htn state established sport = 3128").splitlines())


def link(name: str, interface: str) -> dict[str, Any]:
    """An interface, with its counters, at the client or the gateway."""
    (shown,) = json.loads(on(name, f"ip -s -j link show dev {interface}"))
    return dict(shown)


def endpoint(name: str, address: str) -> int:
    return next(
        int(each["id"]) for each in json.loads(on(name, "ip -j mptcp endpoint show")) if each["address"] == address
    )
