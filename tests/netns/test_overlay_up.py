"""A whole overlay: a file takes the chain that is named for it, and another one when a node of the chain is dead."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest

from experiments.overlay.__main__ import chosen, main
from experiments.overlay.mesh import INGRESS, SERVER, standing_mesh
from experiments.overlay.running import ENDPOINT, PROXY, REACHED, URL, Running, running
from experiments.testbed.build import names
from tests.netns.captures import Stream, capturing, streams
from tests.netns.connections import TCP
from tests.netns.overlay_world import until
from tests.netns.world import connected, needs
from tributary.settings.errors import CommandError, Exit

pytestmark = needs("etcd", "curl", "ip", "ethtool", "cargo")

NODES = ("A", "B", "C", "E", "D")
# From A to D best by way of B, second best by way of C; E is far from all.
DELAYS = {"AB": 20, "BD": 22, "AC": 30, "CD": 28, "BC": 10, "AD": 70, "AE": 80, "BE": 80, "CE": 80, "DE": 80}
SIZE, LARGE = 465_000, 60_000_000
GRAPH = "".join(f"{pair[0]} {pair[1]} {delay}\n" for pair, delay in DELAYS.items())


def milliseconds(one: str, other: str) -> float:
    return DELAYS.get(one + other, DELAYS.get(other + one, 0))


@pytest.fixture
def overlay(name: str) -> Iterator[Running]:
    delays = [[milliseconds(one, other) for other in NODES] for one in NODES]
    with standing_mesh(name, NODES, delays) as mesh, running(mesh, rounds=5) as overlay:
        yield overlay


def fetched(overlay: Running, *how: str) -> str:
    """The digest of the file that the client fetches, whole."""
    target = overlay.mesh.directory / "fetched"
    overlay.mesh.client.run("curl", "--silent", "--fail", *how, "--output", str(target), f"{URL}{SIZE}")
    assert target.stat().st_size == SIZE
    return hashlib.sha256(target.read_bytes()).hexdigest()


def passed(overlay: Running) -> dict[str, int]:
    """How many connections each converter has served."""
    return {name: len(overlay.accesses(name)) for name in NODES}


@contextmanager
def captured(overlay: Running) -> Iterator[dict[str, list[Stream]]]:
    """The TCP streams that come in at each node during the block, and at the client; etcd's cables do not count."""
    places = {**overlay.mesh.nodes, "client": overlay.mesh.client}
    came: dict[str, list[Stream]] = {}
    with ExitStack() as stack:
        captures = {name: stack.enter_context(capturing(node)) for name, node in places.items()}
        yield came
    assert not any(capture.lost for capture in captures.values())
    came.update({name: streams(capture, "lo", "control") for name, capture in captures.items()})


def explained(overlay: Running) -> Any:
    asked = [str(overlay.program), "explain", "A", SERVER, *REACHED]
    return json.loads(overlay.mesh.client.run(*asked))


def in_use(overlay: Running, name: str) -> bool:
    answer = overlay.status()
    (table,) = (table for table in answer["tables"] if table["ingress"] == name)
    (node,) = (node for node in answer["nodes"] if node["name"] == name)
    return bool(node["routes"]["version"] == table["version"])


def kill(overlay: Running, name: str) -> None:
    for pid in overlay.mesh.nodes[name].pids():
        os.kill(pid, signal.SIGKILL)


@contextmanager
def begun_download(overlay: Running) -> Iterator[HTTPResponse]:
    """A large file by way of the proxy, which the client has begun to read; buffers do not hold the rest."""
    with connected(overlay.mesh.client, INGRESS, 3128, seconds=60, protocol=TCP) as proxy:
        proxy.sendall(f"GET {URL}{LARGE} HTTP/1.1\r\nHost: {SERVER}\r\n\r\n".encode())
        with HTTPResponse(proxy) as response:
            response.begin()
            yield response


@pytest.mark.calm  # by delays that are measured
def test_a_file_takes_the_chain_that_is_explained_and_another_one_when_a_node_is_dead(overlay: Running) -> None:
    answer = explained(overlay)
    assert answer["chains"][0]["nodes"] == ["A", "B", "D"]
    assert answer["chains"][0]["time_ms"] < answer["direct"]["time_ms"]
    content = fetched(overlay, "--noproxy", "*")
    assert fetched(overlay, "-x", PROXY) == content
    until(lambda: passed(overlay) == {"A": 1, "B": 1, "C": 0, "D": 1, "E": 0})

    # A node that nothing passes dies: what is under way stays.
    with begun_download(overlay) as download:
        kill(overlay, "E")
        until(lambda: {table["ingress"] for table in overlay.status()["tables"]} == {"A", "B", "C", "D"})
        assert passed(overlay) == {"A": 1, "B": 1, "C": 0, "D": 1, "E": 0}
        assert len(download.read()) == LARGE
    until(lambda: passed(overlay) == {"A": 2, "B": 2, "C": 0, "D": 2, "E": 0})

    # One that the chain passes: a connection at once goes on by the next best way, and soon none tries it any more.
    kill(overlay, "B")
    assert fetched(overlay, "-x", PROXY) == content
    address = overlay.mesh.address("B")
    seconds = until(lambda: not any(address in line for line in overlay.routes("A")))
    print(f"B was out of the routes {seconds:.2f} s after the file")
    # The lease lasts 2 s, etcd looks every half of a second; the rest is for a busy machine.
    assert seconds < 5
    until(lambda: explained(overlay)["chains"][0]["nodes"] == ["A", "C", "D"])
    until(lambda: f"{overlay.mesh.address('C')}:5124 {overlay.mesh.address('D')}:5124" in overlay.routes("A")[0])
    before = passed(overlay)
    assert fetched(overlay, "-x", PROXY) == content
    until(lambda: passed(overlay) == {**before, "A": before["A"] + 1, "C": before["C"] + 1, "D": before["D"] + 1})


@pytest.mark.calm  # by delays that are measured
def test_the_file_comes_in_at_each_node_of_the_chain_in_turn_and_nothing_at_others(overlay: Running) -> None:
    """On its way back, from the server to the client, by the packets at each of them."""
    chain = explained(overlay)["chains"][0]["nodes"]
    assert chain == ["A", "B", "D"]
    with captured(overlay) as at:
        content = fetched(overlay, "-x", PROXY)
    came = [
        (each.came_ns(len(each.content) - SIZE), name, each)
        for name in at
        for each in at[name]
        if hashlib.sha256(each.content[-SIZE:]).hexdigest() == content
    ]
    came.sort(key=lambda each: each[0])
    assert [name for _, name, _ in came] == [*reversed(chain), "client"]

    # Each from the one before it, which is the server at first.
    converters = (f"{overlay.mesh.address(name)}:5124" for name in ("D", "B"))
    assert [each.source for _, _, each in came] == [f"{SERVER}:80", *converters, PROXY.removeprefix("http://")]
    assert [each.interface for _, _, each in came] == ["server", "to2-5", "to1-2", "client"]
    # Half of a link's round-trip time lies between them.
    for (before, *_), (after, *_), link in zip(came, came[1:], ("BD", "AB"), strict=False):
        assert (after - before) / 1e6 > DELAYS[link] / 2
    assert at["C"] == at["E"] == []
    # What else comes in is the request, once at each.
    assert [len(at[name]) for name in ("A", "B", "D", "client")] == [2, 2, 2, 1]


@pytest.mark.calm  # by delays that are measured
def test_of_several_nodes_the_one_nearest_to_the_server_is_the_egress_and_the_file_goes_by_it(overlay: Running) -> None:
    """C is named first, but its packets to the server go by way of D, 28 ms away."""
    overlay.egresses.write_text(f"203.0.113.0/24 C|D 5 probe {SERVER}:80\n")
    overlay.processes["A.agent"].popen.send_signal(signal.SIGHUP)
    until(lambda: explained(overlay)["node_by"] == "order")
    assert explained(overlay)["node"] == "C"
    until(lambda: all(each["to_servers_ms"] for each in explained(overlay)["candidates"]))
    until(lambda: explained(overlay)["node"] == "D")
    answer = explained(overlay)
    assert (answer["node_by"], answer["chains"][0]["nodes"]) == ("measurement", ["A", "B", "D"])
    to_servers = {each["node"]: each["to_servers_ms"] for each in answer["candidates"]}
    assert to_servers["C"] - to_servers["D"] >= 26
    address = overlay.mesh.address
    until(lambda: f"{address('B')}:5124 {address('D')}:5124 or" in overlay.routes("A")[0])
    until(lambda: in_use(overlay, "A"))
    fetched(overlay, "-x", PROXY)
    until(lambda: sum(passed(overlay).values()) >= 3)
    assert passed(overlay) == {"A": 1, "B": 1, "C": 0, "D": 1, "E": 0}


def test_the_command_runs_another_one_and_leaves_nothing(name: str, tmp_path: Any) -> None:
    graph = tmp_path / "graph"
    graph.write_text(GRAPH)
    command = [sys.executable, "-m", "overlay", "up", str(graph), "--nodes", "A", "B", "D", "--name", name, "--json"]
    script = 'curl --silent --fail -o /dev/null -w "%{stderr}%{size_download}" $0; exit 7'
    done = subprocess.run(
        [*command, "--run", "sh", "-c", script, f"{URL}{SIZE}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (7, str(SIZE))
    answer = json.loads(done.stdout)
    assert [node["name"] for node in answer["nodes"]] == ["A", "B", "D"]
    assert (answer["links"], answer["proxy"], answer["endpoints"]) == (3, PROXY, ENDPOINT)
    assert name not in names()

    ended = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert ended.stdout is not None and ended.stdout.readline() == "{\n"
    ended.send_signal(signal.SIGINT)
    assert ended.wait(60) == 0
    assert name not in names()


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        (["2"], "--nodes 2: accepted: 3 to 16 nodes"),
        (["17"], "--nodes 17: accepted: 3 to 16 nodes"),
        (["6"], "--nodes 6: accepted: at most the graph's 5"),
        (["A", "B", "A"], "--nodes A B A: accepted"),
        (["A", "B", "X"], "X is no node of the graph: accepted: A, B, C, ..."),
    ],
)
def test_nodes_that_cannot_be_chosen(wanted: list[str], line: str) -> None:
    with pytest.raises(CommandError, match=line) as caught:
        chosen({"nodes": [*NODES], "delays_ms": [[0] * 5] * 5}, wanted)
    assert caught.value.code == Exit.USAGE


def test_nodes_by_number_are_spread_over_the_graph() -> None:
    delays = [[10 * one + other for other in range(5)] for one in range(5)]
    assert chosen({"nodes": [*NODES], "delays_ms": delays}, ["3"]) == (
        ["A", "B", "E"],
        [[0, 1, 3], [10, 11, 13], [30, 31, 33]],
    )


def test_a_graph_that_cannot_be_read(tmp_path: Any) -> None:
    with pytest.raises(CommandError) as caught:
        main([str(tmp_path / "none")])
    assert caught.value.code == Exit.NO_INPUT
