"""What the worlds of these tests share: network namespaces and their end, commands in them, waiting for what comes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.node import Node
from tributary.daemons.control import Control
from tributary.paths import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE = 20.0
"""Seconds; what takes a tenth of a second may take ten where other tests run. Less than the half minute after which
daemons look again by themselves, and units are killed: what only that brings comes too late.
"""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skips tests where this machine lacks one of the ``tools``, and says which."""
    missing = ", ".join(tool for tool in tools if shutil.which(tool) is None)
    return pytest.mark.skipif(bool(missing), reason=f"missing: {missing}")


def mark_below(conftest: str, items: Sequence[pytest.Item], *marks: pytest.MarkDecorator) -> None:
    """Mark those tests that are below the folder of the file ``conftest``."""
    for item in items:
        if item.path.is_relative_to(Path(conftest).parent):
            for mark in marks:
                item.add_marker(mark)


def run(*command: str, check: bool = True) -> str:
    """What a command printed; ``check`` whether it succeeded."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=250)
    assert not check or result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def in_namespace(name: str, *command: str) -> tuple[str, ...]:
    """``command`` as one that runs in a namespace."""
    return ("ip", "netns", "exec", name, *command)


def on(name: str, command: str, *, check: bool = True) -> str:
    """Run an ip, nft, tc or ss command in a namespace."""
    return run(*in_namespace(name, *command.split()), check=check)


def asked(name: str, daemon: Control) -> dict[str, Any]:
    """All that a daemon in a namespace says of itself, as ``tributary status`` prints it; no program starts for it.

    Raises CommandError, exit 69, where none runs.
    """
    with Node(name, Path()).entered():
        return daemon.ask("status")


def program(name: str, *arguments: str) -> tuple[str, ...]:
    """The command for one of ``tests/netns/programs``."""
    return (sys.executable, "-m", f"tests.netns.programs.{name}", *arguments)


class Child(subprocess.Popen[str]):
    """A process with pipes for its input and output, by which a test exchanges lines with it."""

    def line(self) -> str:
        """Its next line; empty at the end of its output."""
        assert self.stdout is not None
        return self.stdout.readline()

    def send(self, words: object = "") -> None:
        """Have it read a line."""
        assert self.stdin is not None
        self.stdin.write(f"{words}\n")
        self.stdin.flush()

    def ask(self, words: object = "") -> str:
        """The line by which it answers one."""
        self.send(words)
        return self.line()

    def complaints(self) -> str:
        """What it prints on standard error until its end."""
        assert self.stderr is not None
        return self.stderr.read()

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """End it by a signal; returns its exit code."""
        self.send_signal(number)
        return self.wait(seconds)


@contextmanager
def process(*command: str, stderr: int | None = None, inherits: Sequence[int] = ()) -> Iterator[Child]:
    """A process; ended, if need be by force, at the end. ``inherits`` are descriptors that it has as well."""
    pipe = subprocess.PIPE
    with Child(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=ENVIRONMENT, pass_fds=inherits) as child:
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def said_ready(child: Child) -> Child:
    """``child`` as soon as its next line is ``ready``."""
    line = child.line()
    assert line == "ready\n", (child.args, line)
    return child


@contextmanager
def ready(*command: str, stderr: int | None = None, inherits: Sequence[int] = ()) -> Iterator[Child]:
    """A process that has said that it is ready."""
    with process(*command, stderr=stderr, inherits=inherits) as child:
        yield said_ready(child)


def socket_at(
    node: Node, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0
) -> socket.socket:
    """A socket of a node's network namespace."""
    with node.entered():
        return socket.socket(family, kind, protocol)


def datagrams_at(
    node: Node,
    version: int = 4,
    seconds: float = 1.0,
    *,
    at: tuple[str, int] | None = None,
    to: tuple[str, int] | None = None,
) -> socket.socket:
    """One for datagrams of an IP version, that waits no longer than that; ``at`` an address, connected ``to`` one."""
    made = socket_at(node, socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(seconds)
    if at:
        made.bind(at)
    if to:
        made.connect(to)
    return made


def heard_and_answered(asker: socket.socket, service: socket.socket) -> str | None:
    """Who asks by datagrams, as a service sees it, once its answer has come back; None if either gets nothing."""
    with suppress(OSError):
        asker.send(b"ask")
        peer = service.recvfrom(10)[1]
        service.sendto(b"answer", peer)
        if asker.recv(10) == b"answer":
            return str(peer[0])
    return None


def connected(
    node: Node,
    address: str,
    port: int,
    source: tuple[str, int] | None = None,
    seconds: float | None = None,
    *,
    protocol: int,
    receive_buffer: int = 0,
) -> socket.socket:
    """A connection from a node that waits no longer than that, and holds ``receive_buffer`` bytes that are not read yet
    if that is not 0; raises OSError.
    """
    made = socket_at(node, socket.AF_INET6 if ":" in address else socket.AF_INET, protocol=protocol)
    try:
        made.settimeout(seconds)
        if receive_buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(source)
        made.connect((address, port))
    except OSError:
        made.close()
        raise
    return made


def listener_at(
    node: Node, port: int, address: str = "::", protocol: int = socket.IPPROTO_MPTCP, receive_buffer: int = 0
) -> socket.socket:
    """A node's listening socket, on all of its addresses or on one; its connections hold ``receive_buffer`` bytes that
    are not read yet, if that is not 0 (``SO_RCVBUF``).
    """
    made = socket_at(node, socket.AF_INET6 if ":" in address else socket.AF_INET, protocol=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.bind((address, port))
    made.listen(100)
    return made


@contextmanager
def serving(listener: socket.socket, handler: Callable[[socket.socket], object]) -> Iterator[list[tuple[str, int]]]:
    """Call ``handler`` in a thread for each connection to ``listener``, which is closed at the end; who came.

    A connection ends with its handler, which may leave an OSError to this.
    """
    came: list[tuple[str, int]] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            handler(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, peer = listener.accept()
                came.append(peer[:2])
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield came
    finally:
        # A close alone would leave the thread in accept(2).
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def ruled(node: Node, table: str) -> Iterator[None]:
    """A table of nft(8) at a node: ``table FAMILY NAME { ... }``."""
    node.run("nft", table)
    try:
        yield
    finally:
        node.run("nft", f"delete {table.partition('{')[0]}")


@contextmanager
def sysctl(node: Node, **values: str | int) -> Iterator[None]:
    """Kernel parameters of ``node``, as in Node.sysctl; then those of before again."""
    before = {name: node.run("sysctl", "-n", name.replace("__", ".")).strip() for name in values}
    node.sysctl(**values)
    try:
        yield
    finally:
        node.sysctl(**before)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system in memory of this size, for the length of the block."""
    place.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(place))
    try:
        yield place
    finally:
        run("umount", "--lazy", str(place))


def resident(pid: int) -> int:
    """Bytes of memory that a process has (proc(5))."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def cpu_seconds(pid: int) -> float:
    """Of the processor, that a process has had so far (proc(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def eventually(fact: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until ``fact`` is true, which is tried less often the longer it takes; returns what it gave."""
    deadline, pause = time.monotonic() + seconds, 0.02
    while not (value := fact()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(pause)
        # A try may start programs, which take the processors from other tests.
        pause = min(1.2 * pause, 0.1)
    return value


def settled(value: Callable[[], Any], looks: int = 4) -> Any:
    """What ``value`` gives once it has given the same so many times, a fiftieth of a second apart or more."""
    seen: list[Any] = []

    def is_settled() -> bool:
        seen.append(value())
        return len(seen) >= looks and all(each == seen[-1] for each in seen[-looks:])

    eventually(is_settled)
    return seen[-1]
