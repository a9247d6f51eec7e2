import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from tests.netns.connections import MPTCP, meanwhile, take_head
from tests.netns.converter_process import Converter
from tests.netns.converter_world import CLIENT, SHORT_TIMEOUTS, World
from tests.netns.world import eventually

CONFIG = SHORT_TIMEOUTS

pytestmark = [pytest.mark.slow, pytest.mark.calm]


@contextmanager
def two_links(world: World, rate: str = "50mbit") -> Iterator[None]:
    """Both access links at this rate each way, and the client joining over wireless."""
    shaped = [(node, link) for node in (world.client, world.gateway) for link in ("wired", "wireless")]
    with ExitStack() as stack:
        for node, link in shaped:
            node.run(*f"tc qdisc add dev {link} root tbf rate {rate} burst 15140b limit 150000b".split())
            stack.callback(node.run, *f"tc qdisc del dev {link} root".split())
        world.client.ip("mptcp", "endpoint", "add", "10.0.2.2", "dev", "wireless", "subflow")
        stack.callback(world.client.ip, "mptcp", "endpoint", "flush")
        yield


def received(world: World, link: str) -> int:
    """Bytes that came to the client over the link."""
    text = world.client.run("cat", f"/sys/class/net/{link}/statistics/rx_bytes")
    return int(text)


SO_RCVBUFFORCE, BUFFER = 33, 32 << 20
"""A receive buffer of the client's that nothing out of order fills (docs/upstream/receiver-stands-still.md)."""

CUT = """table netdev cut {{
    chain in {{ type filter hook ingress device {0} priority 0; drop; }}
    chain out {{ type filter hook egress device {0} priority 0; drop; }}
}}"""


@pytest.mark.parametrize(("kind", "cut"), [("connect", "wireless"), ("absolute", "wired"), ("convert", "wired")])
def test_transfer_outlives_a_cut_link_and_uses_it_again(net: World, running: Converter, kind: str, cut: str) -> None:
    """Half a minute's silence would be whole as well: what counts is that no second passes without a byte."""
    size, progress = 40 << 20, [(0.0, 0)]
    block = bytes(range(256)) * 256

    def push(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(block)):
            connection.sendall(block)

    def pull(client: socket.socket) -> None:
        got = 0
        while got < size and (data := client.recv(1 << 16)):
            start = got % 256
            assert data == (block + block)[start : start + len(data)]
            got += len(data)
            progress.append((time.monotonic(), got))

    def wait_until_used(link: str) -> None:
        used = received(net, link)
        eventually(lambda: received(net, link) > used + (1 << 20))

    address = {"wired": CLIENT, "wireless": "10.0.2.2"}[cut]
    other = {"wired": "wireless", "wireless": "wired"}[cut]
    with two_links(net), net.serving(push) as service, net.get(kind, service.port, MPTCP) as client:
        client.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        take_head(client)
        with meanwhile(pull, client):
            wait_until_used("wireless")
            with net.ruled(CUT.format(cut)):
                at = time.monotonic()
                eventually(lambda: progress[-1][0] > at + 0.7)
                # The kernel's path manager goes by addresses: a link monitor takes that of a dead link away.
                identity = ["0", address] if cut == "wired" else [endpoint(net, address)]
                net.client.ip("mptcp", "endpoint", "delete", "id", *identity)
                wait_until_used(other)
            net.client.ip("mptcp", "endpoint", "add", address, "dev", cut, "subflow")
            wait_until_used(cut)
    assert progress[-1][1] == size
    gaps = [after[0] - before[0] for before, after in pairwise(progress[1:])]
    assert max(gaps) < 1
    eventually(lambda: running.lines() and running.lines()[-1]["down_bytes"] >= size)
    # Of a request among others the line has no paths.
    if kind != "absolute":
        assert {path["client"] for path in running.lines()[-1]["paths"]} == {CLIENT, "10.0.2.2"}


def endpoint(world: World, address: str) -> str:
    lines = world.client.ip("mptcp", "endpoint", "show").splitlines()
    return next(line.split()[2] for line in lines if line.split()[0] == address)
