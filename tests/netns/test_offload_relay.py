"""The relay that offloads connections (converter/offload), between a client and a server that check every byte.

client 10.1.0.2 ---- 10.1.0.1 relay 10.2.0.1 ---- 10.2.0.2 server

By IPv6, where legs differ and where a device is missing it does as the converter does (test_converter_offload.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.world import eventually, in_namespace, needs, process, ready, run

pytestmark = needs("cargo", "clang")


LISTENS, ORIGIN = "10.1.0.1:7000", "10.2.0.2:8080"
DEVICES = ("--client-device", "to-client", "--server-device", "to-server")
BYTES, AFTER = 800_000_000, 50_000_000
"""More than passes before slow start is seen to be over: 40 ms and more."""


_NETWORK = """
client:eth0 10.1.0.2/24 -- relay:to-client 10.1.0.1/24
server:eth0 10.2.0.2/24 -- relay:to-server 10.2.0.1/24
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with standing_nodes("offload-", _NETWORK, tmp_path) as made:
        yield made


@contextmanager
def relaying(nodes: dict[str, Node], *arguments: str) -> Iterator[Path]:
    """The relay, and the server, for the length of the block; what the relay prints."""
    origin = (str(native.build().load), "origin", "--listen", ORIGIN)
    command = [str(native.offload_relay()), *DEVICES, "--listen", LISTENS, "--to", ORIGIN, *arguments]
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


def bulk(nodes: dict[str, Node], *arguments: str, size: int = BYTES) -> tuple[str, ...]:
    """A command that ends with an error if a byte was wrong."""
    load = (str(native.build().load), "bulk", "--to", LISTENS, "--bytes", str(size), *arguments)
    return in_namespace(nodes["client"].namespace, "timeout", "60", *load)


@pytest.mark.parametrize("direction", ["--verify", "--upload"])
def test_transfers_are_whole_that_the_relay_offloads_half_way(nodes: dict[str, Node], direction: str) -> None:
    with relaying(nodes, "--after", str(AFTER)) as log:
        run(*bulk(nodes, "--connections", "2", direction))
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


def test_with_relay_only_it_offloads_nothing(nodes: dict[str, Node]) -> None:
    with relaying(nodes, "--relay-only") as log:
        run(*bulk(nodes, "--verify"))
        (connection,) = eventually(lambda: told(log, "reason"))
    assert connection["relayed"] >= BYTES
    assert not told(log, "paused")
