"""One curl fetches objects from both back ends by one kept connection, and the cables are read before and after."""

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.handoff.network import BACK_ENDS, URL, Network
from tributary.settings.errors import CommandError, Exit

_TURNS = 3
"""Each back end is asked so often, in turn."""
_READY_SECONDS = 10.0


@dataclass(frozen=True)
class Object:
    """One that was fetched; ``whole`` whether it is the one that lies at its back end."""

    path: str
    size: int
    whole: bool
    seconds: float


@dataclass(frozen=True)
class Fetched:
    """The objects, how many connections the client made for them, and bytes that passed the cable to each node."""

    objects: Sequence[Object]
    connections: int
    by_cable: Mapping[str, int]

    @property
    def whole(self) -> bool:
        """Whether all came as they should, by one connection."""
        return self.connections == 1 and all(each.whole for each in self.objects)


def until_handed(network: Network) -> None:
    """Wait until both back ends take connections; raises CommandError (exit 71)."""
    log = network.directory / "access.log"
    for name in BACK_ENDS:
        (network.objects(name) / name).mkdir(exist_ok=True)
        (network.objects(name) / name / "ready").write_bytes(b"ready")
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        before = log.read_text().count("handed-over") if log.exists() else 0
        _curl(network, *(URL + f"{name}/ready" for name in BACK_ENDS))
        # A line is written when the connection is back or over.
        if log.exists() and log.read_text().count("handed-over") > before:
            return
        if time.monotonic() > deadline:
            raise CommandError(Exit.SYSTEM, f"nothing was handed over within {_READY_SECONDS:g} s")
        time.sleep(0.1)


def fetch_by_one_connection(network: Network, size: int) -> Fetched:
    """Objects of so many bytes, by turns from both back ends."""
    paths = [f"{name}/{turn}" for turn in range(_TURNS) for name in BACK_ENDS]
    for path in paths:
        (network.objects(path[0]) / path).write_bytes(os.urandom(size))
    places = [network.directory / f"got-{number}" for number in range(len(paths))]
    arguments = ["--write-out", "%{num_connects} %{time_total}\n"]
    for path, place in zip(paths, places, strict=True):
        arguments += ["--output", str(place), URL + path]
    before = _by_cable(network)
    told = [line.split() for line in _curl(network, *arguments).splitlines()]
    after = _by_cable(network)
    objects = [
        Object(path, size, _digest(network.objects(path[0]) / path) == _digest(place), float(seconds))
        for path, place, (_, seconds) in zip(paths, places, told, strict=True)
    ]
    connections = sum(int(connects) for connects, _ in told)
    return Fetched(objects, connections, {name: after[name] - before[name] for name in after})


def _curl(network: Network, *arguments: str) -> str:
    return network.nodes["client"].run("curl", "--silent", "--show-error", *arguments)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _by_cable(network: Network) -> dict[str, int]:
    return {name: passed(network, name) for name in network.nodes if name != "switch"}


def passed(network: Network, name: str) -> int:
    """Bytes that went over the cable to a node so far, both ways."""
    shown = network.nodes[name].run("cat", "/proc/net/dev")
    (line,) = [line for line in shown.splitlines() if "eth0" in line]
    numbers = re.findall(r"\d+", line.split(":")[1])
    return int(numbers[0]) + int(numbers[8])
