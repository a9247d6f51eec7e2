"""Request hand-off: unmodified clients, a front that no answer passes, and back ends that answer them.

The network is experiments/handoff/network.py's.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.handoff.network import BACK_ENDS, URL, Network, standing_network
from experiments.testbed.node import Process
from tests.netns.world import eventually, run

missing = [tool for tool in ("cargo", "clang", "curl", "nft") if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}")

SIZE = 2_000_000


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with standing_network("hand", tmp_path_factory.mktemp("handoff")) as network:
        for name in BACK_ENDS:
            folder = network.objects(name)
            (folder / name).mkdir()
            for size in (0, 1, 1000, SIZE, 20 * SIZE):
                (folder / name / str(size)).write_bytes(pattern(name, size))
        yield network


@pytest.fixture
def network(standing: Network) -> Iterator[Network]:
    """All of it at work, from new."""
    (standing.directory / "access.log").unlink(missing_ok=True)
    processes: list[Process] = []
    try:
        processes.append(standing.start_switch())
        processes += [standing.start_back_end(name) for name in BACK_ENDS]
        processes.append(standing.start_front())
        eventually(lambda: handed(standing, "a/1") and handed(standing, "b/1"))
        yield standing
    finally:
        for process in reversed(processes):
            process.stop()


def pattern(name: str, size: int) -> bytes:
    """Bytes that tell whose they are, and where they belong."""
    block = hashlib.sha256(name.encode()).digest()
    return b"".join(block + number.to_bytes(4) for number in range(size // 36 + 1))[:size]


def curl(network: Network, *arguments: str, check: bool = True) -> str:
    command = ("curl", "--silent", "--show-error", "--max-time", "20", *arguments)
    return run(*network.nodes["client"].command(command), check=check)


def handed(network: Network, path: str) -> bool:
    """Whether an object came, by a hand-over."""
    before = len(outcomes(network, "handed-over"))
    curl(network, "--output", "/dev/null", URL + path)
    return len(outcomes(network, "handed-over")) > before


def lines(network: Network) -> list[dict[str, Any]]:
    file = network.directory / "access.log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def outcomes(network: Network, name: str) -> list[dict[str, Any]]:
    return [line for line in lines(network) if line["outcome"] == name]


def passed_front(network: Network) -> int:
    """Bytes that went over the cable to the front so far, both ways."""
    shown = network.nodes["front"].run("cat", "/proc/net/dev")
    (line,) = [line for line in shown.splitlines() if "eth0" in line]
    numbers = re.findall(r"\d+", line.split(":")[1])
    return int(numbers[0]) + int(numbers[8])


def fetch(network: Network, paths: list[str], folder: Path) -> list[bytes]:
    """The objects, by one curl and one connection."""
    arguments = ["--write-out", "%{num_connects}\n"]
    for number, path in enumerate(paths):
        arguments += ["--output", str(folder / str(number)), URL + path]
    connects = curl(network, *arguments).split()
    assert sum(map(int, connects)) == 1, connects
    return [(folder / str(number)).read_bytes() for number in range(len(paths))]


def test_one_connection_gets_objects_from_both_back_ends_and_none_of_them_passes_the_front(
    network: Network, tmp_path: Path
) -> None:
    paths = [f"{name}/{SIZE}" for name in "abbaab"]
    before = passed_front(network)
    got = fetch(network, paths, tmp_path)
    passed = passed_front(network) - before
    assert [hashlib.sha256(each).hexdigest() for each in got] == [
        hashlib.sha256(pattern(path[0], SIZE)).hexdigest() for path in paths
    ]
    assert passed < SIZE / 10, "the front carried payload"
    eventually(lambda: outcomes(network, "handed-over")[-1]["down_bytes"] > len(paths) * SIZE)
