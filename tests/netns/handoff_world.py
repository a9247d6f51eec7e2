"""Request hand-off at work in namespaces, and what tests ask of it."""

import json
import random
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.handoff.network import BACK_ENDS, METRICS, SERVICE, Network, standing_network
from experiments.handoff.running import Running
from experiments.testbed.node import Node
from tests.netns.connections import TCP, Refused, read_all, take, take_head
from tests.netns.converter_process import samples
from tests.netns.converter_services import fields_of
from tests.netns.forging import Place
from tests.netns.world import connected, eventually, needs, run

needs_tools = needs("cargo", "clang", "curl", "nft")

SIZE = 2_000_000
LONG, LARGE = 20 * SIZE, 200 * SIZE


@dataclass(frozen=True)
class HandOff(Running):
    """All of it at work, as clients and the log show it."""

    service: str = SERVICE

    @property
    def nodes(self) -> dict[str, Node]:
        return self.network.nodes

    def restart(self, name: str, *options: str, **settings: Any) -> None:
        """Start what runs on a node anew, in another way."""
        self.processes.pop(name).stop()
        self.processes[name] = self.begin(name, *options, **settings)

    def curl(self, *arguments: str, check: bool = True) -> str:
        """What the client's curl printed."""
        command = ("curl", "--silent", "--show-error", "--max-time", "20", *arguments)
        return run(*self.nodes["client"].command(command), check=check)

    def fetch(self, paths: list[str], folder: Path) -> list[bytes]:
        """The objects, by one curl and one connection."""
        arguments = ["--write-out", "%{num_connects}\n"]
        for number, path in enumerate(paths):
            arguments += ["--output", str(folder / str(number)), f"http://{self.service}/{path}"]
        connects = self.curl(*arguments).split()
        assert sum(map(int, connects)) == 1, connects
        return [(folder / str(number)).read_bytes() for number in range(len(paths))]

    def is_handed(self, path: str) -> bool:
        """Whether an object comes now, by a hand-over."""
        before = len(self.lines())
        arguments = ("--output", "/dev/null", "--write-out", "%{num_connects}", f"http://{self.service}/{path}")
        if self.curl(*arguments, check=False) == "0":
            return False
        # The line is written after the client's end, when the connection has come back.
        lines = eventually(lambda: self.lines()[before:])
        return any(line["outcome"] == "handed-over" for line in lines)

    def wait_for(self, *names: str) -> None:
        """Until these back ends are handed over to."""
        eventually(lambda: all(self.is_handed(f"{name}/1") for name in names))

    def lines(self) -> list[dict[str, Any]]:
        """The front's access log."""
        file = self.network.directory / "access.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @contextmanager
    def logged(self, count: int) -> Iterator[list[dict[str, Any]]]:
        """The lines that are added meanwhile, as soon as they are so many: behind the block."""
        before, added = len(self.lines()), list[dict[str, Any]]()
        yield added
        # A connection is logged once it is over.
        eventually(lambda: len(self.lines()) == before + count)
        added += self.lines()[before:]

    def outcomes(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["outcome"] == name]

    def metrics(self) -> dict[str, float]:
        """Every sample of the front by its name and labels."""
        return samples(self.nodes["front"].run("curl", "--silent", "--fail", f"http://{METRICS}/metrics"))

    def passed_front(self) -> int:
        """Bytes that went over the cable to the front so far, both ways."""
        return sum(self.network.passed("front"))

    def at_back_ends(self) -> list[str]:
        """Connections of clients that are there."""
        return [line for name in BACK_ENDS for line in self._sockets(name, "sport = :7400")]

    def at_front(self) -> list[str]:
        """Connections of clients that have a socket at the front, also in repair mode."""
        return self._sockets("front", "sport = :80")

    def _sockets(self, node: str, which: str) -> list[str]:
        command = ("ss", "-Htn", "state", "connected", "exclude", "time-wait", *which.split())
        return self.nodes[node].run(*command).splitlines()

    def at_rest(self) -> bool:
        """Whether no client has a connection anywhere."""
        return not self.at_back_ends() and not self.at_front()

    def connection(self, node: str = "client") -> socket.socket:
        """A client's, at this node."""
        host, _, port = self.service.partition(":")
        return connected(self.nodes[node], host, int(port), seconds=20, protocol=TCP)

    @contextmanager
    def begun(self, path: str) -> Iterator[socket.socket]:
        """A client's, to whom a back end has sent the beginning of an object."""
        with self.connection() as client:
            client.sendall(request(path))
            assert client.recv(1, socket.MSG_PEEK)
            assert self.at_back_ends()
            yield client

    def without(self, name: str) -> AbstractContextManager[None]:
        """The switch's cable to a node is cut."""
        return self.nodes["switch"].without(f"to-{name}")

    def ends_of(self, client: socket.socket) -> tuple[tuple[Place, Place], tuple[Place, Place]]:
        """Whence and whither a client's packets go, and those of its answers from the first back end to the switch."""
        here = client.getsockname()
        return (here, client.getpeername()), ((self.network.address("a"), 7400), here)

    def exchange(self, sent: bytes) -> bytes:
        """All that comes until the end."""
        with self.connection() as client:
            client.sendall(sent)
            return read_all(client)[0]


@pytest.fixture(scope="module")
def handoff_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """The nodes, and objects in both back ends' folders."""
    with standing_network("hand", tmp_path_factory.mktemp("handoff")) as network:
        for name in BACK_ENDS:
            folder = network.objects(name)
            (folder / name).mkdir()
            for size in (0, 1, 1000, SIZE, LONG, LARGE):
                (folder / name / str(size)).write_bytes(pattern(name, size))
        yield network


@pytest.fixture
def handoff(handoff_network: Network) -> Iterator[HandOff]:
    with at_work(handoff_network) as world:
        yield world


@contextmanager
def at_work(network: Network) -> Iterator[HandOff]:
    (network.directory / "access.log").unlink(missing_ok=True)
    world = HandOff(network)
    try:
        world.start("switch", *BACK_ENDS, "front")
        world.wait_for(*BACK_ENDS)
        yield world
    finally:
        # Back ends that nobody waits for: each would wait a second for a front that is gone.
        if "front" in world.processes:
            world.processes.pop("front").stop()
        world.kill(*world.processes.keys() & set(BACK_ENDS))
        world.stop()


def pattern(name: str, size: int) -> bytes:
    """Bytes that tell whose they are, and where they belong."""
    block = random.Random(name).randbytes(65532)
    return b"".join(block + number.to_bytes(4) for number in range(size // 65536 + 1))[:size]


def request(path: str) -> bytes:
    return f"GET /{path} HTTP/1.1\r\nHost: {SERVICE}\r\n\r\n".encode()


def get(client: socket.socket, name: str, size: int) -> None:
    """An object of a back end's, whole, by this connection."""
    client.sendall(request(f"{name}/{size}"))
    assert answer(client) == pattern(name, size)


def answer(client: socket.socket) -> bytes:
    """The next answer's content, and no byte beyond it; raises Refused with an error, or with its connection's end."""
    head = take_head(client)
    if not head.startswith(b"HTTP/1.1 200"):
        raise Refused(head)
    return take(client, int(fields_of(head)[b"content-length"]))
