"""Three machines to be reached over SSH: namespaces of a testbed, each with an sshd and a network to this one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.build import Testbed, standing
from experiments.testbed.node import Node, Process, run
from experiments.testbed.topology import CLIENT, GATEWAY, SERVER, Profile
from tests.netns.world import eventually
from tributary import cargo
from tributary.paths import CACHE, ROOT
from tributary.settings.files import check

ROLES = (CLIENT, GATEWAY, SERVER)
LINKS = {"wired": {"rate": "40mbit", "delay": "5ms"}, "wireless": {"rate": "10mbit", "delay": "15ms"}}
_SSHD = """\
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
SetEnv TRIBUTARY_CACHE={cache} HOME={folder}
"""
_SSH = """\
Host *
    User root
    IdentityFile {folder}/client
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
"""


_CHANGED = (
    *("ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all"),
    *("ip mptcp endpoint", "ip mptcp limits", "ip -br link", "tc qdisc", "sysctl -a 2>/dev/null | grep ^net."),
)


@dataclass(frozen=True)
class World:
    """``testbed`` has the machines; ``file`` describes them."""

    testbed: Testbed
    folder: Path
    sshds: dict[str, Process]

    @property
    def file(self) -> Path:
        """For --hosts: one link as it should be, and one of which nothing is said."""
        return self.written("hosts.toml")

    def written(self, name: str, **checkouts: str) -> Path:
        topology = self.testbed.topology
        server = f'address = "{topology.SERVER4}"\naddress6 = "{topology.SERVER6}"\nvia = "203.0.113.1"\n'
        parts = ['ssh_config = "ssh_config"\n']
        for role in ROLES:
            checkout = checkouts.get(role, str(ROOT))
            parts.append(f'[{role}]\nhost = "{address_of(role)}"\ncheckout = "{checkout}"\n')
        parts.append(server)
        for link in topology.links:
            ends = {
                "client": link.client4,
                "gateway": link.gateway4,
                "client6": link.client6,
                "gateway6": link.gateway6,
            }
            known = LINKS[link.name] if link.name == "wired" else {}
            keys = "".join(f'{key} = "{value}"\n' for key, value in (ends | known).items())
            parts.append(f"[links.{link.name}]\n{keys}")
        path = self.folder / name
        path.write_text("".join(parts))
        return path

    def state(self) -> dict[str, str]:
        """What an experiment changes of the machines."""
        return {
            f"{role}: {command}": _settled(self.testbed.node(role).run("sh", "-c", command))
            for role in ROLES
            for command in _CHANGED
        }


def _settled(text: str) -> str:
    """Without what changes by itself."""
    return "\n".join(line for line in text.splitlines() if "expires" not in line and "hoplimit" not in line)


def address_of(role: str) -> str:
    """Where the sshd of a machine listens."""
    return f"10.200.{ROLES.index(role)}.2"


@contextmanager
def machines(name: str, folder: Path) -> Iterator[World]:
    """Them for the length of the block, with keys and settings in ``folder``."""
    # Whoever measures there has built it so before.
    cargo.build("tributary-converter", "tributary-load", released=True)
    for key in ("host", "client"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)])
    (folder / "ssh_config").write_text(_SSH.format(folder=folder))
    public = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{address_of(role)} {public}" for role in ROLES))
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd(8) shuts its unprivileged half in
    with standing(name, check({"links": LINKS}, Profile, "links")) as testbed:
        sshds = {}
        for role in ROLES:
            node = testbed.node(role)
            _manage(node, name, role)
            settings = folder / f"sshd-{role}"
            settings.write_text(_SSHD.format(address=address_of(role), folder=folder, cache=CACHE))
            sshds[role] = node.start("sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", str(settings)])
        for role in ROLES:
            _wait_until_listening(testbed.node(role))
        yield World(testbed, folder, sshds)


def _manage(node: Node, name: str, role: str) -> None:
    """A network of this machine and ``node`` alone."""
    here, number = f"{name}-{role}"[:15], ROLES.index(role)
    run(["ip", "link", "add", "name", here, "type", "veth", "peer", "name", "manage", "netns", node.namespace])
    run(["ip", "address", "add", f"10.200.{number}.1/30", "dev", here])
    run(["ip", "link", "set", here, "up"])
    node.ip("address", "add", f"{address_of(role)}/30", "dev", "manage")
    node.ip("link", "set", "manage", "up")


def _wait_until_listening(node: Node) -> None:
    eventually(lambda: node.run("ss", "-Htln", "sport = :22"))


def sessions(world: World, role: str) -> list[int]:
    """The processes of sshd that hold a connection to the machine of ``role``."""
    listener = world.sshds[role].popen.pid
    shown = subprocess.run(["pgrep", "-P", str(listener)], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in shown.split()]
