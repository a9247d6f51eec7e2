"""What a machine is like, and that it is so again afterwards: runs on each machine of --hosts for as long as it serves.

    python -m experiments.hosts.caretaker TAG

Prints what the machine is as one JSON line. Then it is told, a JSON line each, and answers each with a list of
complaints: {"keep": true} to remember the kernel's settings and make the folder, {"do": COMMAND, "undo": COMMAND} to
run the one now and the other when everything is put back, {"restore": true} to put it back. An empty line means that
the other end is alive. Without a word for a while, or when standard input closes, it puts everything back and ends: so
it does when the connection breaks.
Processes are known by TRIBUTARY_HOST=TAG in their environment.
"""

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from experiments.results import machine
from experiments.testbed import native
from tributary import cargo
from tributary.daemons import directories
from tributary.paths import CACHE, ROOT

MARK = "TRIBUTARY_HOST"
SILENCE = 30.0  # seconds after which the other end is gone
_SYSCTLS = Path("/proc/sys/net")
_MPTCP = _SYSCTLS / "mptcp/enabled"
_TOOLS = ("ip", "ss", "sysctl", "ping", "mptcpize", "squid", "nginx")
_ENVIRONMENT = ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYDANTIC_DISABLE_PLUGINS", "TRIBUTARY_CACHE")
_PASSES = 3
"""Settings stand for others: net.ipv4.ip_forward sets all of conf/*/forwarding (ip-sysctl.rst)."""


def folder_of(tag: str) -> Path:
    """Where the files of a machine's processes are."""
    return Path("/run", f"tributary-hosts-{tag}")


@cache
def version() -> str:
    """A digest of what runs here of this checkout."""
    digest = hashlib.sha256()
    for room in ("experiments", "squid", "tributary", "kernel-config", "guard"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".j2", ".conf") or room == "guard":
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    digest.update(cargo.sources().encode())
    return digest.hexdigest()[:12]


def description() -> dict[str, Any]:
    """The machine, as far as an experiment depends on it."""
    return {
        "user": os.geteuid(),
        "version": version(),
        "mptcp": _MPTCP.exists(),
        "missing": [tool for tool in _TOOLS if shutil.which(tool) is None],
        "converter": native.converter_made_from(),
        "python": sys.executable,
        "cache": str(CACHE),
        "environment": {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        "machine": machine(),
    }


@dataclass
class Caretaker:
    """What is put back; nothing until ``keep``."""

    tag: str
    undo: list[list[str]] = field(default_factory=list)
    _sysctls: dict[Path, bytes] = field(default_factory=dict)
    _lock: ExitStack | None = None

    def told(self, what: dict[str, Any]) -> list[str]:
        """Do one thing that it was told; returns the complaints."""
        if "do" in what:
            complaints = list(_run_all([what["do"]]))
            if not complaints:
                self.undo.append(what["undo"])
            return complaints
        return self._keep() if "keep" in what else self.restore()

    def _keep(self) -> list[str]:
        folder = folder_of(self.tag)
        folder.mkdir(exist_ok=True)
        with ExitStack() as lock:
            try:
                lock.enter_context(directories.lock_file(folder / "caretaker.lock"))
            except BlockingIOError:
                return [f"an experiment called {self.tag} runs there already: accepted: another --testbed"]
            self._lock = lock.pop_all()
        self._sysctls = dict(_read_sysctls())
        self.undo = [*_mptcp_again()]
        return []

    def restore(self) -> list[str]:
        """End the processes, put everything back, remove the folder; every part is tried."""
        if self._lock is None:
            return []
        end_processes(self.tag)
        complaints = [*_run_all(reversed(self.undo)), *_write_sysctls(self._sysctls)]
        self.undo.clear()
        shutil.rmtree(folder_of(self.tag), ignore_errors=True)
        self._lock.close()
        self._lock = None
        return complaints


def _read_sysctls() -> Iterator[tuple[Path, bytes]]:
    for path in sorted(_SYSCTLS.rglob("*")):
        # Those that do something when they are written, or cannot be read, are no settings.
        with suppress(OSError):
            if path.is_file() and path.stat().st_mode & 0o200 and path.name not in ("flush", "stable_secret"):
                yield path, path.read_bytes()


def _write_sysctls(wanted: dict[Path, bytes]) -> list[str]:
    wrong: dict[Path, bytes] = {}
    for _ in range(_PASSES):
        now = dict(_read_sysctls())
        wrong = {path: value for path, value in wanted.items() if path in now and now[path] != value}
        for path, value in wrong.items():
            with suppress(OSError):
                path.write_bytes(value)
    return [f"{path} is not as it was" for path in wrong]


def _mptcp_again() -> Iterator[list[str]]:
    """The commands that make the endpoints and limits of now again, the last first; none without MPTCP."""
    if not _MPTCP.exists():
        return
    yield from (["ip", "mptcp", "endpoint", "add", *line.split()] for line in _shown("endpoint").splitlines())
    yield ["ip", "mptcp", "endpoint", "flush"]
    yield ["ip", "mptcp", "limits", "set", *_shown("limits").split()]


def _shown(what: str) -> str:
    return subprocess.run(["ip", "mptcp", what, "show"], capture_output=True, text=True, check=True).stdout


def _run_all(commands: Iterable[Sequence[str]]) -> Iterator[str]:
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield f"{' '.join(command)}: {' '.join(done.stderr.split())}"


def marked(tag: str, command: bytes = b"") -> list[int]:
    """The processes of ``tag``, or those of them with so much in their ``command`` lines."""
    wanted, found = f"{MARK}={tag}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            its = (process / "environ").read_bytes().split(b"\0")
            if wanted in its and command in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def end_processes(tag: str, seconds: float = 10) -> None:
    """End them: SIGTERM, which the leashes pass on, and SIGKILL for what is still there after ``seconds``."""
    for number, command in ((signal.SIGTERM, b"/leash.py"), (signal.SIGKILL, b"")):
        for pid in marked(tag, command):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while marked(tag) and time.monotonic() < deadline:
            time.sleep(0.05)


def serve(words: Callable[[], bytes], caretaker: Caretaker) -> None:
    """Do what comes, until nothing comes any more."""
    while line := words():
        if line.strip():
            print(json.dumps(caretaker.told(json.loads(line))), flush=True)


def _words(standard_input: FileIO) -> bytes:
    readable, _, _ = select.select([standard_input], [], [], SILENCE)
    return (standard_input.readline() or b"") if readable else b""


def main(tag: str) -> None:
    """Until the end of standard input."""
    # It has to outlive the connection, and whoever kills the rest of it.
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    caretaker = Caretaker(tag)
    try:
        print(json.dumps(description()), flush=True)
        standard_input = FileIO(sys.stdin.fileno(), closefd=False)
        serve(lambda: _words(standard_input), caretaker)
    finally:
        caretaker.restore()


if __name__ == "__main__":
    main(sys.argv[1])
