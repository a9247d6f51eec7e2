"""One node of a testbed: a network namespace, and the processes that run in it, which may die, or hang."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

READY = "ready"
_START_SECONDS = 60.0
"""What a process may take to come up; where a processor is emulated, Python alone takes a third of that."""
_A_DAY = 86_400.0
"""In seconds: measurements say themselves how long they take."""
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def run(command: Sequence[str], given: str | None = None) -> str:
    """Run ``command``, ``given`` what it reads, and return what it printed; raises CommandError as process.output()
    does.
    """
    return process.output(command, given, _A_DAY)


def wait_until(
    fact: Callable[[], bool], seconds: float, otherwise: str, code: Exit = Exit.SYSTEM, every: float = 0.05
) -> float:
    """Wait for a fact, which is tried ``every`` so many seconds; returns how many that took. Raises CommandError, which
    says what is ``otherwise``, if it takes longer than so many.
    """
    begun = time.monotonic()
    while not fact():
        if time.monotonic() - begun > seconds:
            raise CommandError(code, f"{otherwise} after {seconds:g} s")
        time.sleep(every)
    return time.monotonic() - begun


def python(module: str, *arguments: str) -> list[str]:
    """What runs a module of this checkout."""
    return [sys.executable, "-m", module, *arguments]


@dataclass(frozen=True)
class Process:
    """A process of a node, and the file that holds what it prints. As a context manager it ends with the block.

    One of another machine is ``called`` so: the end of its standard input ends it there.
    """

    popen: subprocess.Popen[bytes]
    log: Path
    called: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def wait_until_ready(self) -> Self:
        """Wait for a line ``ready`` in the log; raises CommandError if the process ends or stays silent instead."""
        return self.wait_until(lambda: READY in self.output().splitlines())

    def wait_for_output(self) -> Self:
        """Wait for anything in the log; raises CommandError if the process ends or stays silent instead."""
        return self.wait_until(lambda: "\n" in self.output())

    def wait_until(self, done: Callable[[], bool]) -> Self:
        """Wait for a fact; raises CommandError if the process ends before, or takes too long."""
        deadline = time.monotonic() + _START_SECONDS
        while not done():
            if self.popen.poll() is not None:
                self._failed(f"ended with exit code {self.popen.returncode}")
            if time.monotonic() > deadline:
                self._failed(f"was not ready after {_START_SECONDS:g} s")
            time.sleep(0.01)
        return self

    def output(self) -> str:
        """All that the process has printed so far, on both streams."""
        return self.log.read_text(errors="replace")

    def report(self) -> dict[str, Any]:
        """The last JSON object that the process has printed on a line; raises CommandError (exit 71) if there is
        none.
        """
        reports = self.reports()
        if not reports:
            self._failed("printed no report")
        return reports[-1]

    def reports(self) -> list[dict[str, Any]]:
        """All JSON objects that it has printed so far, each on a line."""
        return [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]

    def stop(self, seconds: float = 10) -> int:
        """End the process, by SIGKILL if SIGTERM does not do in time; returns its exit code: 255 if that is another
        machine's, and the connection to it is gone.
        """
        if self.popen.stdin:
            with suppress(OSError):
                self.popen.stdin.close()
        else:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()

    def kill(self) -> None:
        """End it without a last word."""
        self.popen.kill()
        self.popen.wait()

    def _failed(self, how: str) -> NoReturn:
        self.stop()
        last = " | ".join(self.output().splitlines()[-3:])
        called = self.called or " ".join(map(str, self.popen.args))  # type: ignore[arg-type]
        raise CommandError(Exit.SYSTEM, f"{called}: {how}: {last or 'it printed nothing'}")


class Parts(ABC):
    """Programs that run on some nodes, by their names."""

    processes: dict[str, Process]

    @abstractmethod
    def begin(self, name: str) -> Process:
        """Start one of them."""

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = self.begin(name)

    def kill(self, *names: str) -> None:
        for name in names:
            self.processes.pop(name).kill()

    @contextmanager
    def killed(self, *names: str) -> Iterator[None]:
        """These are killed, and there again at the block's end, the last one first."""
        self.kill(*names)
        yield
        self.start(*reversed(names))

    @contextmanager
    def hung(self, *names: str) -> Iterator[None]:
        """These stand still for the length of the block, while their nodes' kernel still acknowledges for them."""
        pids = [self.processes[name].popen.pid for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class Node:
    """A network namespace. ``directory`` holds the logs of its processes."""

    namespace: str
    directory: Path

    def create(self) -> None:
        """Make the namespace, with its loopback interface up."""
        run(["ip", "netns", "add", self.namespace])
        self.set_congestion_control()
        # No duplicate address detection: it keeps IPv6 silent for the first two seconds (RFC 4862 section 5.4).
        self.sysctl(net__ipv6__conf__default__accept_dad=0)
        self.ip("link", "set", "lo", "up")

    def set_congestion_control(self) -> None:
        """Cubic, or Reno where the machine does not allow its namespaces cubic (tcp_allowed_congestion_control).

        Not BBR, whatever the machine's default is: a subflow that BBR rules and that had to wait for another one takes
        the pause for its path's rate. A route's congctl would do for a session's first subflow alone: joined ones take
        the namespace's default (mptcp_ca_reset() in net/mptcp/protocol.c).
        """
        try:
            self.sysctl(net__ipv4__tcp_congestion_control="cubic")
        except CommandError:
            self.sysctl(net__ipv4__tcp_congestion_control="reno")

    def delete(self) -> None:
        run(["ip", "netns", "delete", self.namespace])

    def pids(self) -> list[int]:
        return [int(pid) for pid in run(["ip", "netns", "pids", self.namespace]).split()]

    def command(self, arguments: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def run(self, *arguments: str) -> str:
        """Run a command in the namespace and return what it printed; raises CommandError."""
        return run(self.command(arguments))

    def told(self, *arguments: str) -> Any:
        """The JSON document that a command in the namespace prints; raises CommandError."""
        return json.loads(self.run(*arguments))

    def listens(self, port: int, *, mptcp: bool = False) -> bool:
        """Whether somebody in the namespace listens at a port, by TCP or by MPTCP."""
        return bool(self.run("ss", "-HlnM" if mptcp else "-Hlnt", f"sport = :{port}"))

    def lines(self, *arguments: str) -> Generator[str, None, None]:
        """Run a command in the namespace and yield its lines as they come; raises CommandError if it fails."""
        command = self.command(arguments)
        with (
            tempfile.TemporaryFile("w+") as complaints,
            subprocess.Popen(command, stdin=self._stdin, stdout=subprocess.PIPE, stderr=complaints, text=True) as popen,
        ):
            assert popen.stdout is not None
            try:
                yield from popen.stdout
            except BaseException:
                popen.kill()
                raise
            if popen.wait() != 0:
                complaints.seek(0)
                last = (complaints.read().splitlines() or ["it printed nothing"])[-1]
                raise self._failure(arguments, popen.returncode, last)

    @property
    def _stdin(self) -> int:
        return subprocess.DEVNULL

    def _failure(self, arguments: Sequence[str], _code: int, complaint: str) -> CommandError:
        return CommandError(Exit.SYSTEM, f"{' '.join(arguments)}: {complaint}")

    def there(self, path: Path) -> Path:
        """Where the node has what lies at ``path`` of this machine, in the checkout or its cache."""
        return path

    def write(self, name: str, text: str) -> Path:
        """Put a file ``name`` into ``directory``; returns its path."""
        path = self.directory / name
        path.write_text(text)
        return path

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets that this thread makes in the block belong to the namespace (setns(2))."""
        with Path("/proc/thread-self/ns/net").open() as home, Path(f"/run/netns/{self.namespace}").open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def ip(self, *arguments: str) -> str:
        return run(["ip", "-n", self.namespace, *arguments])

    def batch(self, commands: Iterable[str]) -> None:
        """Run commands of ip(8), each without the word ``ip``, until one fails; raises CommandError then."""
        run(["ip", "-n", self.namespace, "-batch", "-"], "\n".join(commands))

    @contextmanager
    def without(self, interface: str) -> Iterator[None]:
        """An interface is down for the length of the block: its other end has no carrier."""
        self.ip("link", "set", interface, "down")
        try:
            yield
        finally:
            self.ip("link", "set", interface, "up")

    def sysctl(self, **values: str | int) -> None:
        """Set kernel parameters of the namespace; ``__`` stands for the dots in their names."""
        self.run("sysctl", "-qw", *(f"{name.replace('__', '.')}={value}" for name, value in values.items()))

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        """Start a process that outlives the caller; it prints into ``directory``/``name``.log."""
        log = self.directory / f"{name}.log"
        return Process(self._popen(arguments, log, subprocess.DEVNULL), log)

    def probe(self, module: str, *arguments: str, name: str = "") -> Process:
        """Start a program of experiments/probes, and wait until it is ready; its log is called like it, or ``name``."""
        return self.start(name or module, python(f"experiments.probes.{module}", *arguments)).wait_until_ready()

    def _popen(self, arguments: Sequence[str], log: Path, stdin: int) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command(arguments), stdin=stdin, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )


def _enter(namespace: int) -> None:
    # Python has a function for it since 3.12.
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def end_processes(nodes: Sequence[Node], seconds: float = 5) -> None:
    """End what runs in ``nodes``: SIGTERM first, and SIGKILL for what is still there after ``seconds``."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in [pid for node in nodes for pid in node.pids()]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while any(node.pids() for node in nodes) and time.monotonic() < deadline:
            time.sleep(0.02)
