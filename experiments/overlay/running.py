"""What runs on the nodes of a mesh: etcd and a controller, on every node a converter and an agent, and the origin."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.overlay.mesh import CLIENTS, CONTROL, INGRESS, NODES, SERVER, SERVERS, Mesh, standing_mesh
from experiments.study.blueprint import Ground, Standing
from experiments.testbed import converter
from experiments.testbed.links import emulation
from experiments.testbed.node import Parts, Process
from experiments.testbed.server import start_origin
from overlay import control
from tributary.settings.errors import CommandError, Exit

ENDPOINT = f"http://{CONTROL}:2379"
REACHED = ("--endpoints", ENDPOINT, "--insecure-transport")
"""How etcd is reached: nobody else is in these namespaces."""
PROXY = f"http://{INGRESS}:3128"
URL = f"http://{SERVER}/"
_PING_PORT, _CONVERT_PORT = 5460, 5124
_ROUNDS = 5
_COMPLETE_SECONDS = 120.0
"""Agents know all delays after a few seconds; on a busy machine later."""


@dataclass(frozen=True)
class Running(Parts):
    """An overlay at work. What runs can be ended and started again: etcd with its data, nodes as they were.

    ``processes`` are "etcd", "controller", and of each node "NAME.converter" and "NAME.agent".
    """

    mesh: Mesh
    program: Path
    egresses: Path
    processes: dict[str, Process]

    def begin(self, name: str) -> Process:
        """Start one of these, and wait until it listens if it is a converter; the others wait for etcd."""
        node, _, what = name.rpartition(".")
        if what in ("etcd", "controller"):
            return self._etcd() if what == "etcd" else self._controller()
        return self._converter(node) if what == "converter" else self._agent(node)

    def _etcd(self) -> Process:
        peers = f"http://{CONTROL}:2380"
        urls = ["--listen-client-urls", ENDPOINT, "--advertise-client-urls", ENDPOINT, "--listen-peer-urls", peers]
        urls += ["--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"]
        data = self.mesh.directory / "etcd"
        command = ["etcd", "--data-dir", str(data), "--logger", "zap", *urls]
        return self.mesh.control.start("etcd", command)

    def _controller(self) -> Process:
        command = [str(self.program), "controller", "controller", *REACHED]
        return self.mesh.control.start("controller", command)

    def _converter(self, name: str) -> Process:
        files, node = self._files(name), self.mesh.nodes[name]
        files.with_suffix(".routes").touch()
        convert = {"kind": "convert", "address": f"{self.mesh.address(name)}:{_CONVERT_PORT}", "via_gateway": True}
        http = {"kind": "http", "address": f"{INGRESS}:3128", "via_gateway": True}
        listeners = [convert, *([http] if name == next(iter(self.mesh.nodes)) else [])]
        tables: dict[str, dict[str, object]] = {"log": {"access": f"{files}.access"}}
        tables["gateway"] = {
            "routes_file": f"{files}.routes",
            "converters": [NODES],
            "loop_check": True,
            "mptcp": False,
        }
        text = converter.settings(node, files.name, (NODES, CLIENTS), *listeners, **tables)
        return converter.start(node, files.name, text)

    def _agent(self, name: str) -> Process:
        address, files = self.mesh.address(name), self._files(name)
        where = ["--address", f"{address}:{_PING_PORT}", "--converter", f"{address}:{_CONVERT_PORT}"]
        # They share one machine: its pressure tells none of them from the others.
        where += ["--pressure", os.devnull]
        routes = ["--routes", str(files.with_suffix(".routes")), "--egresses", str(self.egresses)]
        reload = ["--reload", f"kill -HUP {self.processes[f'{name}.converter'].popen.pid}"]
        command = [str(self.program), "agent", name, *where, *routes, *reload, *REACHED]
        return self.mesh.nodes[name].start(f"{files.name}.agent", command)

    def status(self) -> Any:
        return self.mesh.control.told(str(self.program), "status", *REACHED)

    def wait_until_complete(self) -> None:
        """Wait until every node has chains to all others, and goes by them; raises CommandError (exit 71)."""
        deadline = time.monotonic() + _COMPLETE_SECONDS
        while True:
            try:
                if _complete(self.status(), len(self.mesh.nodes)):
                    return
                missing = "some tables have not all chains"
            except CommandError as failure:
                missing = str(failure)  # etcd is not there yet
            if time.monotonic() > deadline:
                raise CommandError(Exit.SYSTEM, f"the overlay is not complete after {_COMPLETE_SECONDS:g} s: {missing}")
            time.sleep(0.2)

    def accesses(self, name: str) -> list[dict[str, Any]]:
        """The lines of a converter's access log: a connection each, when it has ended; none of its agent's."""
        lines = map(json.loads, self._file(name, "access").read_text().splitlines())
        return [line for line in lines if line["outcome"] != "info"]

    def routes(self, name: str) -> list[str]:
        """The routes that a converter has, without the comment in front."""
        return [line for line in self._file(name, "routes").read_text().splitlines() if not line.startswith("#")]

    def _file(self, name: str, kind: str) -> Path:
        return self._files(name).with_suffix(f".{kind}")

    def _files(self, name: str) -> Path:
        return self.mesh.directory / self.mesh.nodes[name].namespace


@contextmanager
def running(mesh: Mesh, rounds: int, by_port: Mapping[int, str] | None = None) -> Iterator[Running]:
    """The overlay for the length of the block, its tables complete.

    The last node is the egress of all servers, but for the ports that ``by_port`` gives to other nodes. The server has
    its files at those too. What is started ends with the mesh. Raises CommandError: exit 71 if the tables do not become
    complete.
    """
    ports = by_port or {}
    egresses = [f"{SERVERS} {[*mesh.nodes][-1]} {rounds}"]
    egresses += [f"{SERVERS} port {port} {node} {rounds}" for port, node in ports.items()]
    file = mesh.directory / "egresses"
    file.write_text("".join(f"{line}\n" for line in egresses))
    made = Running(mesh, control.build(), file, {})
    made.start("etcd", "controller")
    for port in (80, *ports):
        start_origin(mesh.server, f"{SERVER}:{port}")
    for what in ("converter", "agent"):
        made.start(*(f"{name}.{what}" for name in mesh.nodes))
    made.wait_until_complete()
    yield made


def whole_overlay(
    nodes: Sequence[str], round_trip_ms: Sequence[Sequence[float]], by_port: Mapping[int, str] | None = None
) -> Ground[Running]:
    """An overlay with all its tables, whose first node is the ingress, and the last one the egress.

    ``round_trip_ms`` is from each node to each, in milliseconds; chains are for transfers of five rounds;
    ``by_port`` are ports of the server with another node as their egress. What the links do is seen by what is
    measured: they are not checked beforehand.
    """

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Running]]:
        with standing_mesh(name, nodes, round_trip_ms) as mesh, running(mesh, _ROUNDS, by_port) as overlay:
            yield Standing(overlay, emulation=emulation())

    described = {"nodes": nodes, "round_trip_ms": round_trip_ms, "rounds": _ROUNDS}
    return Ground(described | ({"by_port": dict(by_port)} if by_port else {}), stands)


def _complete(status: Mapping[str, Any], count: int) -> bool:
    """Whether every node has chains to all others, and every converter goes by them."""
    tables = {table["ingress"]: table for table in status["tables"]}
    in_use = {node["name"]: node["routes"]["version"] for node in status["nodes"] if node["routes"]}
    whole = [name for name, table in tables.items() if table["egresses"] == count - 1]
    return len(whole) == count and all(in_use.get(name) == tables[name]["version"] for name in whole)
