"""An overlay in one network namespace: etcd, controllers, agents and their converters on addresses of loopback."""

import base64
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from experiments.testbed.build import reserved
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from overlay import control
from tests.netns.world import eventually

PREFIX = "tributary/overlay/"
ETCD = "http://127.0.0.1:2379"
PEERS = "http://127.0.0.1:2380"
_CONVERTER = """\
[control]
socket = "{socket}"
[[listen]]
kind = "convert"
address = "{address}"
"""
TIMEOUT = 60.0
"""Seconds; nothing here takes a tenth of that on a calm machine."""


@dataclass
class Overlay:
    """What runs, by name, and what etcd knows. Whatever is started ends with the test."""

    node: Node
    program: Path
    stack: ExitStack
    processes: dict[str, Process] = field(default_factory=dict)

    def etcd(self, *options: str) -> None:
        """Start etcd, with the data that it had when it was killed, and these options."""
        urls = ["--listen-client-urls", ETCD, "--advertise-client-urls", ETCD, "--listen-peer-urls", PEERS]
        urls += ["--initial-advertise-peer-urls", PEERS, "--initial-cluster", f"default={PEERS}"]
        data = str(self.node.directory / "etcd")
        self.start("etcd", ["etcd", "--data-dir", data, "--logger", "zap", *urls, *options])
        until(lambda: self.node.run("curl", "--silent", f"{ETCD}/health", "--retry", "20", "--retry-connrefused"))

    def agent(self, name: str, number: int, *options: str) -> None:
        """Start the agent of a node, which has an address of its own, beside the node's converter."""
        host = f"127.0.0.{number}"
        if f"{name}.converter" not in self.processes:
            self.start_converter(name, host)
        pressure = self._pressure(name)
        if not pressure.exists():
            self.press(name, 0)
        where = ["--address", f"{host}:5460", "--converter", f"{host}:5124", "--pressure", str(pressure)]
        self.tributary(name, "agent", name, *where, "--interval-ms", "200", *options)

    def start_converter(self, name: str, host: str) -> None:
        socket = self.node.directory / f"{name}.sock"
        text = _CONVERTER.format(socket=socket, address=f"{host}:5124")
        settings = self.node.write(f"{name}.toml", text)
        program = native.build().converter
        self.start(f"{name}.converter", [str(program), "--config", str(settings)]).wait_until_ready()

    @contextmanager
    def silent_converter(self, name: str, number: int, how: signal.Signals) -> Iterator[None]:
        """The converter of a node does not answer: it is killed or stopped. Behind the block it answers again."""
        converter = self.processes[f"{name}.converter"].popen
        converter.send_signal(how)
        yield
        if how == signal.SIGSTOP:
            converter.send_signal(signal.SIGCONT)
        else:
            converter.wait()
            self.start_converter(name, f"127.0.0.{number}")

    def press(self, name: str, percent: float) -> None:
        """Have a node's agent read this pressure, as it would of the kernel, whose pressure is the whole machine's."""
        self._pressure(name).write_text(f"some avg10={percent:.2f} avg60=0.00 avg300=0.00 total=0\n")

    def _pressure(self, name: str) -> Path:
        return self.node.directory / f"{name}.pressure"

    def controller(self, name: str) -> None:
        self.tributary(name, "controller", name, "--endpoints", ETCD)

    def tributary(self, name: str, *arguments: str) -> Process:
        return self.start(name, [str(self.program), *arguments])

    def refused(self, *arguments: str) -> tuple[int, str]:
        """The exit code of the program, which ends by itself, and what it printed."""
        return outcome(self.tributary("refused", *arguments))

    def hang_up(self, name: str) -> None:
        """Have what runs under this name read its files again."""
        self.processes[name].popen.send_signal(signal.SIGHUP)

    def kill(self, name: str) -> None:
        """End it as a crash would."""
        self.processes[name].kill()

    def start(self, name: str, command: list[str]) -> Process:
        process = self.node.start(name, command)
        self.stack.callback(process.stop, 2)
        self.processes[name] = process
        return process

    def asked(self, *words: str) -> dict[str, Any]:
        """What the program answers."""
        answer: dict[str, Any] = json.loads(self.node.run(str(self.program), *words))
        return answer

    def status(self) -> dict[str, Any]:
        return self.asked("status")

    def round_trips(self, folder: str, node: str) -> dict[str, int]:
        """The delays that a node has published, in microseconds."""
        return dict(self.values(folder).get(node, {}).get("round_trip_us", {}))

    def refusals(self) -> list[str]:
        """What of etcd's entries the controller does not take."""
        return list(self.status()["refused"])

    def found(self, folder: str) -> dict[str, dict[str, Any]]:
        """etcd's entries below ``folder``, by the rest of their keys, as its JSON gateway tells; values decoded."""
        start = PREFIX + folder
        asked = {"key": coded(start), "range_end": coded(start[:-1] + chr(ord(start[-1]) + 1))}
        entries = self._ask("kv/range", asked).get("kvs", [])
        decoded = ({**each, "value": json.loads(base64.b64decode(each["value"]))} for each in entries)
        return {base64.b64decode(each["key"]).decode().removeprefix(start): each for each in decoded}

    def values(self, folder: str) -> dict[str, Any]:
        """What these entries are about."""
        return {name: entry["value"]["value"] for name, entry in self.found(folder).items()}

    def put(self, key: str, value: object, form: int = 1) -> None:
        """Write what an agent would."""
        text = json.dumps({"format": form, "value": value})
        self._ask("kv/put", {"key": coded(PREFIX + key), "value": coded(text)})

    def measured(self, name: str, **milliseconds: float) -> None:
        """Write what the agent of a node would that is not there."""
        self.put(f"nodes/{name}", {"address": "192.0.2.1:5460", "converter": converter(name)})
        self.put(f"delays/{name}", {"round_trip_us": {peer: round(ms * 1000) for peer, ms in milliseconds.items()}})

    def delete(self, key: str) -> None:
        """Remove what such an agent wrote."""
        self._ask("kv/deleterange", {"key": coded(PREFIX + key)})

    def _ask(self, what: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        output = self.node.run("curl", "--silent", "--fail", f"{ETCD}/v3/{what}", "--data", json.dumps(asked))
        answer: dict[str, Any] = json.loads(output)
        return answer

    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables by their ingresses."""
        return self.values("tables/")

    def egresses(self) -> dict[str, set[str]]:
        """To which nodes each ingress has chains."""
        return {ingress: set(table["chains"]) for ingress, table in self.tables().items()}


def converter(name: str) -> str:
    """Where the converter of a node is said to be that is not there, A to Z."""
    return f"192.0.2.{ord(name) - ord('A') + 1}:5124"


def coded(text: str) -> str:
    """As etcd's JSON gateway has keys and values."""
    return base64.b64encode(text.encode()).decode()


def full(*names: str) -> dict[str, set[str]]:
    """What each ingress has when these nodes are alive."""
    return {name: set(names) - {name} for name in names}


def outcome(process: Process, seconds: float = 30) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and what it printed."""
    return process.popen.wait(seconds), process.output()


def until(condition: Callable[[], Any]) -> float:
    """Wait for it; returns the seconds that it took."""
    start = time.monotonic()
    eventually(condition, TIMEOUT)
    return time.monotonic() - start


@pytest.fixture
def empty(name: str) -> Iterator[Overlay]:
    program = control.build()
    with (
        reserved(name) as directory,
        standing_nodes(f"trib-{name}-", "overlay:", directory) as nodes,
        ExitStack() as stack,
    ):
        yield Overlay(nodes["overlay"], program, stack)
