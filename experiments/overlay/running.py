"""What runs on the nodes of a mesh: etcd and a controller, on every node a converter and an agent, and the origin."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.overlay.mesh import CLIENTS, CONTROL, INGRESS, NODES, SERVER, SERVERS, Mesh
from experiments.testbed import native
from experiments.testbed.node import Process
from overlay import plane
from tributary.settings.failure import Exit, Failure

ENDPOINT = f"http://{CONTROL}:2379"
REACHED = ("--endpoints", ENDPOINT, "--insecure-transport")
"""How etcd is reached: nobody else is in these namespaces."""
PROXY = f"http://{INGRESS}:3128"
URL = f"http://{SERVER}/"
_PING_PORT, _CONVERT_PORT = 5460, 5124
_COMPLETE_SECONDS = 120.0
"""Agents know all delays after a few seconds; on a busy machine later."""

_CONVERTER = """\
[clients]
networks = ["{nodes}", "{own_clients}"]
[control]
socket = "{files}.sock"
[log]
access = "{files}.access"
[timeouts]
drain = "1s"
[gateway]
routes_file = "{files}.routes"
converters = ["{nodes}"]
loop_check = true
mptcp = false
[[listen]]
kind = "convert"
address = "{address}:{port}"
via_gateway = true
"""
_HTTP = """\
[[listen]]
kind = "http"
address = "{ingress}:3128"
via_gateway = true
"""


@dataclass(frozen=True)
class Running:
    """An overlay at work. ``processes`` are its converters by their nodes' names."""

    mesh: Mesh
    program: Path
    processes: Mapping[str, Process]

    def status(self) -> Any:
        """What scripts/overlay status says, as JSON."""
        return json.loads(self.mesh.control.run(str(self.program), "status", *REACHED))

    def accesses(self, name: str) -> list[dict[str, Any]]:
        """The lines of a converter's access log: a connection each, when it has ended; none of its agent's."""
        lines = map(json.loads, self._file(name, "access").read_text().splitlines())
        return [line for line in lines if line["outcome"] != "info"]

    def routes(self, name: str) -> list[str]:
        """The routes that a converter has, without the comment in front."""
        return [line for line in self._file(name, "routes").read_text().splitlines() if not line.startswith("#")]

    def _file(self, name: str, kind: str) -> Path:
        return _files(self.mesh, name).with_suffix(f".{kind}")


@contextmanager
def running(mesh: Mesh, rounds: int) -> Iterator[Running]:
    """The overlay for the length of the block, its tables complete; the last node is the egress of all servers.

    What it starts ends with the mesh. Raises Failure: exit 71 if the tables do not become complete.
    """
    program, programs = plane.build(), native.build()
    mesh.control.start("etcd", _etcd(mesh.directory / "etcd"))
    mesh.control.start("controller", [str(program), "controller", "controller", *REACHED])
    origin = [str(programs.load), "origin", "--listen", f"{SERVER}:80"]
    mesh.server.start("origin", origin).wait_until_ready()
    egresses = mesh.directory / "egresses"
    egresses.write_text(f"{SERVERS} {[*mesh.nodes][-1]} {rounds}\n")
    converters = {name: _start_converter(mesh, name, programs.converter) for name in mesh.nodes}
    for name, converter in converters.items():
        _start_agent(mesh, name, [str(program), "agent", name], egresses, converter)
    made = Running(mesh, program, converters)
    _wait(lambda: _complete(made.status(), len(mesh.nodes)))
    yield made


def _etcd(data: Path) -> list[str]:
    peers = f"http://{CONTROL}:2380"
    urls = ["--listen-client-urls", ENDPOINT, "--advertise-client-urls", ENDPOINT, "--listen-peer-urls", peers]
    urls += ["--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"]
    return ["etcd", "--data-dir", str(data), "--logger", "zap", *urls]


def _files(mesh: Mesh, name: str) -> Path:
    return mesh.directory / mesh.nodes[name].namespace


def _start_converter(mesh: Mesh, name: str, program: Path) -> Process:
    files = _files(mesh, name)
    files.with_suffix(".routes").touch()
    is_ingress = name == next(iter(mesh.nodes))
    text = _CONVERTER.format(
        nodes=NODES, own_clients=CLIENTS, files=files, address=mesh.address(name), port=_CONVERT_PORT
    ) + (_HTTP.format(ingress=INGRESS) if is_ingress else "")
    settings = files.with_suffix(".toml")
    settings.write_text(text)
    log = f"{files.name}.converter"
    return mesh.nodes[name].start(log, [str(program), "--config", str(settings)]).wait_until_ready()


def _start_agent(mesh: Mesh, name: str, command: list[str], egresses: Path, converter: Process) -> None:
    address, files = mesh.address(name), _files(mesh, name)
    where = ["--address", f"{address}:{_PING_PORT}", "--converter", f"{address}:{_CONVERT_PORT}"]
    # They share one machine: its pressure tells none of them from the others.
    where += ["--pressure", os.devnull]
    routes = ["--routes", str(files.with_suffix(".routes")), "--egresses", str(egresses)]
    reload = ["--reload", f"kill -HUP {converter.popen.pid}"]
    mesh.nodes[name].start(f"{files.name}.agent", [*command, *where, *routes, *reload, *REACHED])


def _complete(status: Mapping[str, Any], count: int) -> bool:
    """Whether every node has chains to all others, and every converter goes by them."""
    tables = {table["ingress"]: table for table in status["tables"]}
    in_use = {node["name"]: node["routes"]["version"] for node in status["nodes"] if node["routes"]}
    whole = [name for name, table in tables.items() if table["egresses"] == count - 1]
    return len(whole) == count and all(in_use.get(name) == tables[name]["version"] for name in whole)


def _wait(complete: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _COMPLETE_SECONDS
    while True:
        try:
            if complete():
                return
            missing = "some tables have not all chains"
        except Failure as failure:
            missing = str(failure)  # etcd is not there yet
        if time.monotonic() > deadline:
            raise Failure(Exit.SYSTEM, f"the overlay is not complete after {_COMPLETE_SECONDS:g} s: {missing}")
        time.sleep(0.2)
