"""The relay that leaves the path (converter/transplant), between a client and a server that check every byte.

client 10.1.0.2 ---- 10.1.0.1 relay 10.2.0.1 ---- 10.2.0.2 server
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from experiments.testbed.native import Programs
from experiments.testbed.node import Node
from tests.netns.world import eventually, in_namespace, process, run, said_ready, standing_nodes

missing = [tool for tool in ("cargo", "clang") if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}")

RELAY, ORIGIN = "10.1.0.1:7000", "10.2.0.2:8080"
DEVICES = ("--client-device", "to-client", "--server-device", "to-server")
BYTES, AFTER = 800_000_000, 50_000_000
"""More than passes before slow start is seen to be over: 40 ms and more."""


@pytest.fixture(scope="module")
def programs() -> Programs:
    native.relays()
    return native.build()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    names = ("client", "relay", "server")
    with standing_nodes("leave-", names, tmp_path) as made:
        all_nodes = dict(zip(names, made, strict=True))
        for number, name in enumerate(("client", "server"), start=1):
            cable(all_nodes["relay"], all_nodes[name], f"to-{name}", f"10.{number}.0")
        yield all_nodes


def cable(relay: Node, end: Node, device: str, net: str) -> None:
    peer = ("type", "veth", "peer", "name", "eth0", "netns", end.namespace)
    relay.ip("link", "add", device, *peer)
    for node, name, address in ((relay, device, f"{net}.1/24"), (end, "eth0", f"{net}.2/24")):
        node.ip("address", "add", address, "dev", name)
        node.ip("link", "set", name, "up")


@contextmanager
def relaying(nodes: dict[str, Node], programs: Programs, *arguments: str) -> Iterator[Path]:
    """The relay that leaves, and the server, for the length of the block; what the relay prints."""
    with serving(nodes, programs, native.relays().leaving, *DEVICES, *arguments) as log:
        yield log


@contextmanager
def serving(nodes: dict[str, Node], programs: Programs, program: Path, *arguments: str) -> Iterator[Path]:
    origin = (str(programs.load), "origin", "--listen", ORIGIN)
    with process(*in_namespace(nodes["server"].namespace, *origin)) as child:
        said_ready(child)
        command = [str(program), "--listen", RELAY, "--to", ORIGIN, *arguments]
        with nodes["relay"].start(program.name, command).wait_until_ready() as relay:
            yield relay.log


def told(log: Path, what: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if what in line]


def bulk_command(nodes: dict[str, Node], programs: Programs, *arguments: str, size: int = BYTES) -> tuple[str, ...]:
    """Ends with an error if a byte was wrong."""
    load = (str(programs.load), "bulk", "--to", RELAY, "--bytes", str(size), *arguments)
    return in_namespace(nodes["client"].namespace, "timeout", "60", *load)


def bulk(nodes: dict[str, Node], programs: Programs, *arguments: str, size: int = BYTES) -> None:
    run(*bulk_command(nodes, programs, *arguments, size=size))


@pytest.mark.parametrize("direction", ["--verify", "--upload"])
def test_transfers_are_whole_that_the_relay_leaves_in_their_midst(
    nodes: dict[str, Node], programs: Programs, direction: str
) -> None:
    with relaying(nodes, programs, "--after", str(AFTER)) as log:
        bulk(nodes, programs, "--connections", "2", direction)
        ended = eventually(lambda: len(found := told(log, "translated")) == 2 and found, 30)
    for connection in ended:
        assert AFTER <= connection["relayed"] < BYTES
        assert connection["relayed"] + connection["translated"] >= BYTES
        assert connection["refused"] == 0


def test_sockets_of_connections_that_are_over_are_closed(nodes: dict[str, Node], programs: Programs) -> None:
    with relaying(nodes, programs, "--after", str(AFTER)) as log:
        sockets = in_namespace(nodes["relay"].namespace, "ss", "-Htn", "state", "established")
        with process(*bulk_command(nodes, programs, "--verify", size=4 * BYTES)) as transfer:
            eventually(lambda: told(log, "left"), 30)
            # Until it is over they keep the connection's addresses and ports.
            assert len(run(*sockets).splitlines()) == 2, log.read_text()
            assert transfer.wait(60) == 0
        eventually(lambda: told(log, "translated"), 30)
        eventually(lambda: not run(*sockets).strip())


def test_with_stay_it_only_relays(nodes: dict[str, Node], programs: Programs) -> None:
    with relaying(nodes, programs, "--stay") as log:
        bulk(nodes, programs, "--verify")
        (connection,) = eventually(lambda: told(log, "stayed"))
    assert connection["relayed"] >= BYTES
    assert not told(log, "left")


@pytest.mark.parametrize("direction", ["--verify", "--upload"])
def test_what_the_kernel_moves_between_joined_sockets_is_whole(
    nodes: dict[str, Node], programs: Programs, direction: str
) -> None:
    size = 100_000_000
    with serving(nodes, programs, native.relays().joining) as log:
        bulk(nodes, programs, "--connections", "3", direction, size=size)
        ended = eventually(lambda: len(found := told(log, "joined")) == 3 and found, 30)
    # What came before the sockets were joined the relay has moved itself.
    assert all(connection["joined"] > size / 2 for connection in ended)


def test_a_device_that_is_not_there_is_named() -> None:
    command = (str(native.relays().leaving), "--listen", "127.0.0.1:0", "--to", ORIGIN, *DEVICES)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 71
    assert done.stderr.startswith('leaving-relay: device "to-client": ')
    assert len(done.stderr.splitlines()) == 1
