"""etcd's members on addresses of loopback that ask for certificates, and who asks them with one."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.testbed.node import Process
from overlay.authority import enrol
from overlay.purposes import member
from tests.netns.overlay_world import Overlay, outcome, until

_FILES = {"trusted-ca-file": "ca.pem", "cert-file": "node.pem", "key-file": "node.key"}


@dataclass(frozen=True)
class Secure:
    """An overlay whose etcd has ``members``, and the authority's folder, with the identities."""

    overlay: Overlay
    authority: Path
    members: int

    @property
    def endpoints(self) -> str:
        """As arguments of agents."""
        return ",".join(f"https://127.0.0.{number}:2379" for number in range(1, self.members + 1))

    def start(self) -> None:
        """Start all members, m1 and so on, and wait for them."""
        for number in range(1, self.members + 1):
            self._start(number)
        root = self.authority / "root"
        until(lambda: self.asked("root", "status", identity=root)[0] == 0)

    def _start(self, number: int) -> None:
        # The other members see it come from the first address of loopback, and look for that in its certificate.
        folder = enrol(self.authority, f"m{number}", 1, member([f"127.0.0.{number}", "127.0.0.1"]))
        options = [f"--{side}{key}={folder / file}" for side in ("", "peer-") for key, file in _FILES.items()]
        options += ["--client-cert-auth", "--peer-client-cert-auth", "--peer-cert-allowed-cn=etcd", "--logger=zap"]
        client, peer = (f"https://127.0.0.{number}:{port}" for port in (2379, 2380))
        options += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        options += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        cluster = ",".join(f"m{each}=https://127.0.0.{each}:2380" for each in range(1, self.members + 1))
        data = self.overlay.node.directory / f"etcd{number}"
        name = f"m{number}"
        command = ["etcd", f"--name={name}", f"--data-dir={data}", f"--initial-cluster={cluster}", *options]
        self.overlay.start(name, command)

    def enrol(self, *names: str) -> None:
        """Make their certificates."""
        for name in names:
            enrol(self.authority, name, 1)

    def agent(self, name: str, number: int) -> Process:
        identity = str(self.authority / name)
        self.overlay.agent(name, number, "--endpoints", self.endpoints, "--identity", identity)
        return self.overlay.processes[name]

    def controller(self, name: str) -> Process:
        identity = str(self.authority / name)
        options = ["--endpoints", self.endpoints, "--identity", identity]
        return self.overlay.tributary(name, "controller", name, *options)

    def asked(self, name: str, *words: str, identity: Path | None = None) -> tuple[int, str]:
        """The exit code and the output of the program for a name."""
        known = ["--endpoints", self.endpoints, "--identity", str(identity or self.authority / name)]
        return outcome(self.overlay.tributary(f"{name} asks", *words, *known))

    def status(self, name: str) -> dict[str, Any]:
        """The status for this name; empty if etcd does not answer."""
        code, output = self.asked(name, "status")
        answer: dict[str, Any] = json.loads(output) if code == 0 else {}
        return answer

    def egresses(self, name: str) -> dict[str, int]:
        """The number of nodes to which each ingress has chains, by the status for this name."""
        return {table["ingress"]: table["egresses"] for table in self.status(name).get("tables", [])}

    def changed(self, *words: str) -> tuple[int, str]:
        """The exit code and the output of scripts/overlay that changes etcd's users."""
        reached = ["--authority", str(self.authority), "--endpoints", self.endpoints]
        return outcome(self.overlay.start("changes", [sys.executable, "-m", "overlay", *words, *reached]), 60)

    def etcdctl(self, name: str, words: Sequence[str]) -> tuple[int, str]:
        """The exit code and the output of etcd's own client for a name."""
        folder = self.authority / name
        files = zip(("cacert", "cert", "key"), _FILES.values(), strict=True)
        options = [f"--{option}={folder / file}" for option, file in files]
        command = ["env", "ETCDCTL_API=3", "etcdctl", f"--endpoints={self.endpoints}", *options, *words]
        return outcome(self.overlay.start("etcdctl", command))
