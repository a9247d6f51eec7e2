"""The relay that offloads connections (converter/offload), between a client and a server that check every byte.

client 10.1.0.2 ---- 10.1.0.1 relay 10.2.0.1 ---- 10.2.0.2 server
      fd00:1::2 ---- fd00:1::1     fd00:2::1 ---- fd00:2::2
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.world import eventually, in_namespace, needs, process, ready, run

pytestmark = needs("cargo", "clang")


@dataclass(frozen=True)
class Way:
    """Where the relay listens, what the client dials, and where the server is."""

    listens: str
    relay: str
    origin: str


IPV4 = Way("10.1.0.1:7000", "10.1.0.1:7000", "10.2.0.2:8080")
IPV6 = Way("[fd00:1::1]:7000", "[fd00:1::1]:7000", "[fd00:2::2]:8080")
DUAL_STACK = replace(IPV4, listens="[::]:7000")
"""A client of IPv4 where clients of IPv6 could come as well."""
every_way = pytest.mark.parametrize("way", [IPV4, IPV6, DUAL_STACK], ids=["ipv4", "ipv6", "dual-stack"])
DEVICES = ("--client-device", "to-client", "--server-device", "to-server")
BYTES, AFTER = 800_000_000, 50_000_000
"""More than passes before slow start is seen to be over: 40 ms and more."""


_NETWORK = """
client:eth0 10.1.0.2/24 fd00:1::2/64 -- relay:to-client 10.1.0.1/24 fd00:1::1/64
server:eth0 10.2.0.2/24 fd00:2::2/64 -- relay:to-server 10.2.0.1/24 fd00:2::1/64
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with standing_nodes("offload-", _NETWORK, tmp_path) as made:
        yield made


@contextmanager
def relaying(nodes: dict[str, Node], *arguments: str, way: Way = IPV4) -> Iterator[Path]:
    """The relay, and the server, for the length of the block; what the relay prints."""
    origin = (str(native.build().load), "origin", "--listen", way.origin)
    command = [str(native.offload_relay()), *DEVICES, "--listen", way.listens, "--to", way.origin, *arguments]
    with (
        ready(*in_namespace(nodes["server"].namespace, *origin)),
        nodes["relay"].start("offload-relay", command).wait_until_ready() as relay,
    ):
        try:
            yield relay.log
        finally:
            print(relay.log.read_text())


def told(log: Path, what: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if what in line]


def bulk(nodes: dict[str, Node], *arguments: str, size: int = BYTES, way: Way = IPV4) -> tuple[str, ...]:
    """A command that ends with an error if a byte was wrong."""
    load = (str(native.build().load), "bulk", "--to", way.relay, "--bytes", str(size), *arguments)
    return in_namespace(nodes["client"].namespace, "timeout", "60", *load)


@every_way
@pytest.mark.parametrize("direction", ["--verify", "--upload"])
def test_transfers_are_whole_that_the_relay_offloads_half_way(nodes: dict[str, Node], direction: str, way: Way) -> None:
    with relaying(nodes, "--after", str(AFTER), way=way) as log:
        run(*bulk(nodes, "--connections", "2", direction, way=way))
        ended = eventually(lambda: len(found := told(log, "translated")) == 2 and found, 30)
    for connection in ended:
        assert AFTER <= connection["relayed"] < BYTES
        assert connection["relayed"] + connection["translated"] >= BYTES
        assert connection["refused"] == 0


def test_sockets_of_connections_that_are_over_are_closed(nodes: dict[str, Node]) -> None:
    with relaying(nodes, "--after", str(AFTER)) as log:
        sockets = in_namespace(nodes["relay"].namespace, "ss", "-Htn", "state", "established")
        with process(*bulk(nodes, "--verify", size=4 * BYTES)) as transfer:
            eventually(lambda: told(log, "paused"), 30)
            # Until it is over they keep the connection's addresses and ports.
            assert len(run(*sockets).splitlines()) == 2, log.read_text()
            assert transfer.wait(60) == 0
        eventually(lambda: told(log, "translated"), 30)
        eventually(lambda: not run(*sockets).strip())


def test_it_offloads_nothing_where_one_leg_goes_by_ipv4_and_the_other_one_by_ipv6(nodes: dict[str, Node]) -> None:
    way = replace(IPV4, origin=IPV6.origin)
    with relaying(nodes, "--after", str(AFTER), way=way) as log:
        run(*bulk(nodes, "--verify", way=way))
        (connection,) = eventually(lambda: told(log, "reason"))
    assert connection["relayed"] >= BYTES
    assert connection["reason"] == "one leg goes by IPv4, the other one by IPv6"


def test_with_relay_only_it_offloads_nothing(nodes: dict[str, Node]) -> None:
    with relaying(nodes, "--relay-only") as log:
        run(*bulk(nodes, "--verify"))
        (connection,) = eventually(lambda: told(log, "reason"))
    assert connection["relayed"] >= BYTES
    assert not told(log, "paused")


def test_a_device_that_is_not_there_is_named() -> None:
    command = (str(native.offload_relay()), "--listen", "127.0.0.1:0", "--to", IPV4.origin, *DEVICES)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 71
    assert done.stderr.startswith('offload-relay: device "to-client": ')
    assert len(done.stderr.splitlines()) == 1
