"""The gateways of ansible/inventory/fleet.yml as the roles make them, in network namespaces.

The roles' own: BIRD's settings, the program that announces and its unit's command, the commands of the units that set
addresses, endpoints and limits, kernel settings, the firewall, the converter's settings. Not theirs: what systemd would
do, which is to run the units' commands as the units' users.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from experiments.testbed.node import Node, Process
from tests.ansible.playbooks import play
from tests.netns.converter_process import program
from tributary.paths import ROOT

PORT = 3129
SHARED = {4: "198.51.100.80", 6: "2001:db8:80::80"}
"""What clients are given, by IP version."""
NODES = {f"gw{last}": (f"192.0.2.1{last}", f"2001:db8:12::1{last}") for last in (1, 2, 3)}
"""The gateways of the inventory, and their addresses on the router's network."""
JOINS = {f"gw{last}": (f"198.51.100.1{last}", f"2001:db8:80::1{last}") for last in (1, 2, 3)}
"""Where their clients join."""
WITHOUT_BFD = "gw3"

# Over the example: what is put on the nodes is smaller, and all but one are watched by BFD.
_CHANGES = {
    "gateways": {
        "hosts": {f"{WITHOUT_BFD}.example.net": {"anycast_bfd": False}},
        "vars": {"anycast_bfd": True, "tributary_parts": ["converter", "throttler"]},
    }
}
# Folders that each node has for itself, with their owners.
_FOLDERS = {
    "/run": ("bird", "tributary-anycast", "tributary-anycast-addresses", "tributary-converter"),
    "/var/lib": ("tributary/anycast",),
    "/var/log": ("tributary-converter",),
    "/etc/bird": (),
    "/usr/local/sbin": (),
}
_BIRDS = ("/run/bird", "/run/tributary-anycast", "/var/lib/tributary/anycast", "/etc/bird")
RUN_BIRD = ("bird", "-f", "-u", "bird", "-g", "bird")  # bird.service of Debian's package

Sessions = Mapping[str, Sequence[tuple[str, str]]]
"""By token: (own address, client's address) of each subflow."""


class Host(Node):
    """A node with folders of its own, below its directory, in place of the machine's."""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """ip-netns(8) gives each its own mounts."""
        binds = " && ".join(f"mount --bind {self.at(folder)} {folder}" for folder in _FOLDERS)
        return super().command(["sh", "-c", f'{binds} && exec "$@"', "sh", *arguments])

    def at(self, path: str) -> Path:
        """Where a file of the node's is for this machine."""
        return Path(f"{self.directory}{path}")

    def put(self, path: str, text: str) -> None:
        """A file of the node's."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text)

    def prepare(self) -> None:
        for folder, inner in _FOLDERS.items():
            for name in ("", *inner):
                self.at(f"{folder}/{name}").mkdir(parents=True, exist_ok=True)
        for folder in _BIRDS:
            shutil.chown(self.at(folder), "bird", "bird")


@dataclass
class Gateway:
    name: str
    host: Host
    switch: Node
    files: Mapping[str, str]
    running: dict[str, Process] = field(default_factory=dict)

    def set_up(self) -> None:
        """What a deployment does before anything serves."""
        self.host.prepare()
        for path, text in self.files.items():
            self.host.put(path, text)
        shutil.chown(self.host.at("/etc/bird/bird.conf"), "bird", "bird")
        shutil.copy(ROOT / "ansible/roles/anycast/files/tributary_anycast.py", self._program)
        self._program.chmod(0o755)
        brought = sorted((ROOT / "kernel-config").glob("9*.conf"))
        for settings in (*brought, *self._written("/etc/sysctl.d")):
            self.host.run("sysctl", "-e", "-q", "-p", str(settings))
        rules = ROOT / "kernel-config/tributary-firewall.nft"
        self.host.run("nft", "--includepath", str(self.host.at("/etc/nftables.d")), "--file", str(rules))
        self._once("tributary-mptcp.service.d/tributary.conf")
        self._once("tributary-anycast-addresses.service")

    def serve(self) -> None:
        """Start what does not run: the converter, BIRD, and the program that announces."""
        unit = "tributary-anycast.service"
        user, command = self._said(unit, "User")[0], self._said(unit, "ExecStart")[0]
        programs = {
            "converter": (program(), "--config", str(self.host.at("/etc/tributary/converter.toml"))),
            "bird": RUN_BIRD,
            "anycast": ("setpriv", "--reuid", user, "--regid", user, "--init-groups", *command.split()),
        }
        for name, words in programs.items():
            if name not in self.running:
                self.running[name] = self.host.start(name, words)

    def kill(self, *names: str) -> None:
        """SIGKILL to the named programs."""
        for name in names:
            self.running.pop(name).kill()

    def anycast(self, *words: str) -> str:
        """What an administrator types: tributary-anycast WORDS."""
        return self.host.run("/usr/local/sbin/tributary-anycast", *words)

    def configure(self, text: str) -> None:
        """Have BIRD read these settings."""
        self.host.put("/etc/bird/bird.conf", text)
        self.host.run("birdc", "configure")

    def status(self) -> Mapping[str, object]:
        """What the program that announces has seen."""
        found: Mapping[str, object] = json.loads(self.host.at("/run/tributary-anycast/status.json").read_text())
        return found

    @contextmanager
    def readdressed(self, old: str, new: str) -> Iterator[None]:
        """In the block it has another address of its own, as after a run by an inventory that has."""
        (words,) = self._said("tributary-anycast-addresses.service", "ExecReload")
        self.host.run(*words.replace(old, new).split())
        try:
            yield
        finally:
            self.host.run(*words.split())

    def own_addresses(self) -> tuple[set[str], set[str]]:
        """On lo, and of the endpoints that are announced."""
        (device,) = json.loads(self.host.run("ip", "-j", "address", "show", "dev", "lo"))
        endpoints = json.loads(self.host.run("ip", "-j", "mptcp", "endpoint", "show"))
        own = {each["local"] for each in device["addr_info"] if each["scope"] == "global"}
        return own, {each["address"] for each in endpoints}

    def die(self) -> None:
        """As if its power were cut: nothing leaves any more, and the router's port sees nothing of it."""
        self._power("down")
        self.kill(*self.running)
        # The namespace goes on, and with it what the kernel would try to say once the cable is back.
        self.host.run("ss", "-K", "-Htn", "state", "all")

    def recover(self) -> None:
        """Bring back what died, and end a drain."""
        self._power("up")
        self.serve()
        if self.drained.exists():
            self.anycast("announce")

    def _power(self, state: str) -> None:
        self.switch.ip("link", "set", self.name, state)

    def counters(self) -> Mapping[str, int]:
        """The kernel's MPTCP counters of this node, since it was made."""
        lines = self.host.run("nstat", "-asz", "MPTcpExt*").splitlines()
        return {words[0].removeprefix("MPTcpExt"): int(words[1]) for words in map(str.split, lines[1:])}

    def sessions(self) -> Sessions:
        """The node's MPTCP sessions, by sock_diag(7)."""
        found: dict[str, list[tuple[str, str]]] = {}
        for line in self.host.run("ss", "-HOtni", "state", "established", f"( sport = :{PORT} )").splitlines():
            if token := re.search(r" token:[0-9a-f]+\(id:\d+\)/([0-9a-f]+)\(id:\d+\)", line):
                own, client = (_address(text) for text in line.split()[2:4])
                found.setdefault(token[1], []).append((own, client))
        return found

    @property
    def drained(self) -> Path:
        """The file that is there while the node is drained."""
        return self.host.at("/var/lib/tributary/anycast/drained")

    @property
    def _program(self) -> Path:
        return self.host.at("/usr/local/sbin/tributary-anycast")

    def _written(self, folder: str) -> list[Path]:
        return [self.host.at(path) for path in sorted(self.files) if path.startswith(folder)]

    def _said(self, unit: str, key: str) -> list[str]:
        lines = self.files[f"/etc/systemd/system/{unit}"].splitlines()
        return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]

    def _once(self, unit: str) -> None:
        """Run the commands of a unit of Type=oneshot."""
        for words in filter(None, self._said(unit, "ExecStart")):
            self.host.run(*words.removeprefix("-").split())


def _address(text: str) -> str:
    return text.rpartition(":")[0].strip("[]").removeprefix("::ffff:")


def files_of_the_roles(directory: Path) -> Mapping[str, Mapping[str, str]]:
    """What the roles put on each node, by the node's name and the file's path."""
    changes = directory / "changes.json"
    changes.write_text(json.dumps(_CHANGES))
    done = play(ROOT / "tests/netns/fleet.yml", "fleet", directory, "-i", str(changes), "-e", f"folder={directory}")
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((directory / f"{name}.example.net").read_text()) for name in NODES}
