"""A running native converter, what it says of itself, and how it starts."""

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

from experiments.testbed import native
from experiments.testbed.node import Node
from tests.netns.connections import TCP
from tests.netns.world import connected, cpu_seconds, eventually, resident, settled

SERVER = "203.0.113.2"
METRICS = 9090


@dataclass
class Converter:
    popen: subprocess.Popen[bytes]
    node: Node
    directory: Path
    exit_code: int = 0
    """With which it may have ended."""

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def status(self) -> dict[str, Any]:
        """What it tells at its control socket."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(5)
            asking.connect(str(self.directory / "control"))
            with asking.makefile("rb") as answer:
                return dict(json.load(answer))

    def answers(self) -> bool:
        with suppress(OSError, ValueError):
            return bool(self.status()["pid"] == self.pid)
        return False

    def lines(self) -> list[dict[str, Any]]:
        """The access log."""
        text = (self.directory / "access").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def served(self) -> list[str]:
        """The outcomes of its connections, in their order."""
        return [str(line["outcome"]) for line in self.lines()]

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels."""
        with connected(self.node, "127.0.0.1", METRICS, seconds=5, protocol=TCP) as asking:
            asking.sendall(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n")
            with asking.makefile("rb") as answer:
                text = answer.read().decode().partition("\r\n\r\n")[2]
        return samples(text)

    def outcomes(self, listener: str) -> Mapping[str, int]:
        """How connections and requests at the listener ended, and how many did so."""
        return self.by_outcome("outcomes", f'listener="{listener}"')

    def by_outcome(self, metric: str, label: str = "") -> Mapping[str, int]:
        """A counter's samples that have this label, by their outcomes."""
        start = f"tributary_converter_{metric}_total{{"
        found = {name: value for name, value in self.metrics().items() if name.startswith(start) and label in name}
        return {name.partition('outcome="')[2].partition('"')[0]: int(value) for name, value in found.items()}

    def wait_for(self, text: str, seconds: float = 10) -> None:
        """Until its log has ``text``."""
        eventually(lambda: text in self.log, seconds)

    def wait_until_idle(self, seconds: float = 5) -> None:
        eventually(lambda: self.status()["open_connections"] == 0, seconds)

    def ends(self, code: int = 0, seconds: float = 10) -> None:
        """Wait for its end, which has this exit code."""
        assert self.popen.wait(seconds) == code, self.log
        self.exit_code = code

    def kill(self) -> None:
        """End it, and who it has handed over to."""
        with suppress(OSError, ValueError):
            os.kill(self.status()["pid"], signal.SIGKILL)
        self.popen.kill()
        self.popen.wait()

    def write(self, config: str) -> None:
        write_config(self.directory, config)

    def reload(self, config: str) -> str:
        """Put a new configuration into its file, send SIGHUP, and return what it then logged."""
        before = len(self.log)
        self.write(config)
        self.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "reloaded" in self.log[before:])
        return self.log[before:]

    @contextmanager
    def reloaded(self, config: str) -> Iterator[None]:
        """With another configuration for the length of the block."""
        before = (self.directory / "converter.toml").read_text()
        assert "not reloaded" not in self.reload(config)
        try:
            yield
        finally:
            assert "not reloaded" not in self.reload(before)

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def idle_descriptors(self) -> int:
        """Open files when it has nothing to do, once all of its threads are there."""
        eventually(lambda: len(list(Path(f"/proc/{self.pid}/task").iterdir())) > 2)
        return int(settled(self.descriptors, 6))

    def resident(self) -> int:
        """Bytes of memory."""
        return resident(self.pid)

    def cpu_seconds(self) -> float:
        """Of the processor, so far."""
        return cpu_seconds(self.pid)

    def leave_files(self, free: int) -> None:
        """Let it open so many descriptors more, and no other."""
        self.idle_descriptors()
        taken = {int(entry.name) for entry in Path(f"/proc/{self.pid}/fd").iterdir()}
        most = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)[1]
        unused = (number for number in count() if number not in taken)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (next(islice(unused, free, None)), most))


def samples(text: str) -> dict[str, float]:
    """Those of a page of metrics, by their names and labels."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def write_config(directory: Path, config: str) -> Path:
    """``config`` with the files and addresses of the tests, unless it has those tables itself."""
    tables = {
        "control": f'socket = "{directory}/control"',
        "log": f'access = "{directory}/access"',
        "metrics": f'address = "127.0.0.1:{METRICS}"',
        "names": f'servers = ["{SERVER}"]',
    }
    added = [f"[{name}]\n{key}\n" for name, key in tables.items() if f"[{name}]" not in config]
    file = directory / "converter.toml"
    file.write_text("\n".join((config, *added)))
    return file


@cache
def program() -> str:
    return str(native.build().converter)


def run(*arguments: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=seconds, check=False)


def complaint(directory: Path, config: str, *arguments: str) -> str:
    """The one line by which it refuses a wrong configuration."""
    done = run("--config", str(write_config(directory, config)), *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1), done.stderr
    assert done.stderr.startswith("tributary-converter: ")
    return done.stderr


def with_etc(file: Path) -> tuple[str, ...]:
    """What runs a program with ``file`` in the place of that of /etc."""
    return ("unshare", "--mount", "sh", "-c", f'mount --bind {file} /etc/{file.name} && exec "$0" "$@"')


def start(node: Node, directory: Path, config: str, *wrapper: str) -> Converter:
    """Start a converter in ``node`` whose files are in ``directory``; it may not be ready yet, or never be."""
    file = write_config(directory, config)
    command = node.command([*wrapper, program(), "--config", str(file)])
    with (directory / "log").open("ab") as log:
        popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return Converter(popen, node, directory)
