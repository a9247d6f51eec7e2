"""Linux's MPTCP stands still once what came out of order fills a receiver: the converter has it go on (io/quiet.rs)."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.netns.connections import MPTCP, meanwhile, take
from tests.netns.converter_world import SHORT_TIMEOUTS, World
from tests.netns.world import eventually, sysctl

CONFIG = SHORT_TIMEOUTS
MESSAGES, SIZE = 20_000, 20
"""Small ones: of each, the kernel counts what its buffer takes, not what is in it."""
AWAY = 1.0
CUT = "table netdev cut { chain in { type filter hook ingress device wired priority 0; drop; }; }"


@pytest.fixture
def two_paths(net: World) -> Iterator[None]:
    net.client.ip("mptcp", "endpoint", "add", "10.0.2.2", "dev", "wireless", "subflow")
    # What lies unsent in the first subflow is little, so that the other one gets the rest.
    with sysctl(net.client, net__ipv4__tcp_notsent_lowat=16384):
        yield
    net.client.ip("mptcp", "endpoint", "flush")


@pytest.mark.usefixtures("two_paths")
@pytest.mark.parametrize("kind", ["connect", "absolute"])
def test_small_messages_behind_a_path_that_was_away_for_a_moment_arrive(net: World, kind: str) -> None:
    def send(client: socket.socket) -> None:
        for _ in range(MESSAGES):
            client.sendall(bytes(SIZE))

    with net.joined(kind, MPTCP, way="up") as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        eventually(lambda: net.client.run("ss", "-Htn", "state", "established", "src", "10.0.2.2"))
        with meanwhile(send, client):
            with net.ruled(CUT):
                time.sleep(AWAY)
            assert take(server, MESSAGES * SIZE) == bytes(MESSAGES * SIZE)
