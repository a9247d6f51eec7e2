"""A node of a testbed that is a machine of its own, with what is run there told to it over SSH."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.hosts.caretaker import MARK
from experiments.hosts.connection import Host
from experiments.testbed.node import Node, Process
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError


@dataclass(frozen=True)
class HostNode(Node):
    """A machine. ``directory`` is a folder there, ``logs`` one here, for what its processes print."""

    host: Host
    logs: Path

    def command(self, arguments: Sequence[str]) -> list[str]:
        """``arguments`` as a command that runs there; the Python, checkout and cache of here are those of there."""
        return self.host.command([self._there(word) for word in arguments])

    def there(self, path: Path) -> Path:
        """Where the machine has what lies at ``path`` of this one."""
        return Path(self._there(str(path)))

    def _there(self, word: str) -> str:
        if word == sys.executable:
            return str(self.host.about["python"])
        for here, there in ((CACHE, self.host.cache), (ROOT, self.host.login.settings.checkout)):
            if word.startswith(f"{here}/"):
                return f"{there}{word.removeprefix(str(here))}"
        return word

    def pids(self) -> list[int]:
        find = f"grep -lsFzx {MARK}={self.host.tag} /proc/[0-9]*/environ || true"
        return [int(line.split("/")[2]) for line in self.run("sh", "-c", find).splitlines()]

    def run(self, *arguments: str) -> str:
        return self._run(self.command(arguments), arguments, stdin=self._stdin, errors="replace")

    def _run(self, command: Sequence[str], called: Sequence[str], **how: Any) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
        if done.returncode != 0:
            raise self._failure(called, done.returncode, " ".join(done.stderr.split()))
        return str(done.stdout)

    def ip(self, *arguments: str) -> str:
        return self.run("ip", *arguments)

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        self._run(self.host.login.over(f"cat >{shlex.quote(str(path))}"), [f"write {path}"], input=text)
        return path

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        """Start a process there, which ends with the connection at the latest; it prints into ``logs``/``name``.log."""
        log = self.logs / f"{self.host.login.role}-{name}.log"
        popen = self._popen(arguments, log, subprocess.PIPE)
        return Process(popen, log, f"{self.host.login}: {' '.join(arguments)}")

    def change(self, do: str, undo: str) -> None:
        """Run the words of ``do`` there, and those of ``undo`` when everything is put back; raises CommandError."""
        self.host.tell(do=do.split(), undo=undo.split())

    @property
    def _stdin(self) -> int:
        return self.host.silence

    def _failure(self, arguments: Sequence[str], code: int, complaint: str) -> CommandError:
        return self.host.failure(arguments, code, complaint)
