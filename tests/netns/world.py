"""What the worlds of these tests share: network namespaces and their end, commands in them, waiting for what comes."""

import os
import shutil
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


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skips tests where this machine lacks one of the ``tools``, and says which."""
    missing = ", ".join(tool for tool in tools if shutil.which(tool) is None)
    return pytest.mark.skipif(bool(missing), reason=f"missing: {missing}")


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


@contextmanager
def process(*command: str, stderr: int | None = None, inherits: Sequence[int] = ()) -> Iterator[subprocess.Popen[str]]:
    """A process with pipes for its input and output; ended, if need be by force, at the end.

    ``inherits`` are descriptors that it has as well.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
    with subprocess.Popen(command, **pipes, text=True, env=ENVIRONMENT, pass_fds=inherits) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def said_ready(child: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """``child`` as soon as its next line is ``ready``."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line == "ready\n", (child.args, line)
    return child


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


def eventually(fact: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until ``fact`` is true; returns what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := fact()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
    return value
