"""Builds a testbed from its topology, and takes it down again, also what a killed run has left behind."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed import native
from experiments.testbed.links import PROBE, connect, emulation, set_mtu
from experiments.testbed.network import lay, take_down_nodes
from experiments.testbed.node import Node, run
from experiments.testbed.topology import CLIENT, GATEWAY, MPTCP_MOST, SERVER, Profile, Topology
from tributary.daemons import directories
from tributary.settings.errors import CommandError, Exit

_RUN, _STATE = Path("/run"), "tributary-testbed-"


@dataclass(frozen=True)
class Testbed:
    """A testbed that stands. ``directory`` holds its description, its logs and its processes' files; ``emulation`` is
    what emulates its links.
    """

    name: str
    topology: Topology
    directory: Path
    emulation: str

    def node(self, name: str) -> Node:
        return Node(f"trib-{self.name}-{name}", self.directory)

    @property
    def client(self) -> Node:
        return self.node(CLIENT)

    @property
    def gateway(self) -> Node:
        return self.node(GATEWAY)

    @property
    def server(self) -> Node:
        return self.node(SERVER)

    @property
    def converter(self) -> Path:
        """The native converter that runs on the gateway; raises CommandError if there is none."""
        return native.build().converter

    def offer(self, size: int, seed: int) -> None:
        """Have the random file of ``size`` bytes where the server serves it: namespaces share this machine's."""

    def set_mtu(self, mtu: int) -> None:
        """Let every interface between the client and the server carry packets of up to ``mtu`` bytes."""
        for link in self.topology.links:
            set_mtu(link, self.client, self.node(link.node), self.gateway, mtu)
        for node in (self.gateway, self.server):
            node.ip("link", "set", "core", "mtu", str(mtu))


@contextmanager
def standing(name: str, profile: Profile, seed: int = 0, *, keep: bool = False) -> Iterator[Testbed]:
    """A testbed for the length of the block, or for longer if ``keep``; ``seed`` is for its links' losses and jitter.

    As long as the block runs, the testbed is locked; a testbed that is neither kept nor locked is an orphan, which the
    next take_down_orphans() removes. Raises CommandError: exit 75 if a testbed of this name stands already.
    """
    with reserved(name, keep) as directory:
        topology = Topology.of(profile)
        testbed = Testbed(name, topology, directory, emulation(*topology.links))
        _describe(testbed, profile, kept=False)
        _build(testbed, seed)
        yield testbed
        if keep:
            _describe(testbed, profile, kept=True)


@contextmanager
def reserved(name: str, keep: bool = False) -> Iterator[Path]:
    """A testbed's name, locked for the length of the block, and its folder; then all of it is removed, unless the block
    succeeds and it is to ``keep``.

    Raises CommandError: exit 75 if the name is taken.
    """
    check_name(name)
    directory = _directory(name)
    with ExitStack() as lock:
        with standing_alone():
            try:
                directory.mkdir()
            except FileExistsError as error:
                message = f"a testbed {name!r} stands already: scripts/testbed down --name {name} removes it"
                raise CommandError(Exit.IN_USE, message) from error
            lock.enter_context(_lock(directory))
        try:
            yield directory
        except BaseException:
            take_down(name)
            raise
        else:
            if not keep:
                take_down(name)


def alone(name: str) -> AbstractContextManager[int]:
    """Testbeds called ``name`` are this command's for the length of the block, also between one and the next.

    Raises CommandError: exit 75 if they are another command's.
    """
    check_name(name)
    message = f"another command measures on testbeds {name!r}: accepted: another name, or when that has ended"
    return directories.lock_file(_RUN / f"tributary-run-{name}.lock", taken=message)


def take_down(name: str) -> None:
    """Remove the testbed ``name`` with its processes and files; every part is tried."""
    try:
        take_down_nodes([Node(ns, _directory(name)) for ns in _all_namespaces() if ns.startswith(f"trib-{name}-")])
    finally:
        shutil.rmtree(_directory(name), ignore_errors=True)


def take_down_orphans() -> list[str]:
    """Remove every testbed whose run was killed; returns their names."""
    with standing_alone():  # else another command takes the name meanwhile, once it has removed the same
        found = _orphans()
        for name in found:
            take_down(name)
        for probe in _probes_left():
            with suppress(CommandError):  # its own process was quicker
                probe.delete()
    return found


def orphans() -> list[str]:
    """The names of testbeds whose run was killed."""
    with standing_alone():
        return _orphans()


def _probes_left() -> list[Node]:
    """The namespaces in which killed processes tried what the kernel can do."""
    found = {ns: match[1] for ns in _all_namespaces() if (match := re.fullmatch(rf"{PROBE}(\d+)", ns))}
    return [Node(namespace, _RUN) for namespace, pid in found.items() if not Path("/proc", pid).exists()]


def _orphans() -> list[str]:
    return [name for name in names() if _is_orphan(_directory(name))]


def names() -> list[str]:
    """The names of all testbeds on this machine, by what is left of any of them."""
    described = {path.name.removeprefix(_STATE) for path in _RUN.glob(f"{_STATE}*")}
    found = {match[1] for ns in _all_namespaces() if (match := re.fullmatch(r"trib-([a-z0-9]+)-.*", ns))}
    return sorted(described | found)


def find(name: str) -> Testbed:
    """The testbed ``name``; raises CommandError (exit 69) if it does not stand."""
    try:
        description = json.loads((_directory(name) / "testbed.json").read_text())
    except FileNotFoundError as error:
        standing_now = ", ".join(names()) or "none"
        raise CommandError(Exit.UNAVAILABLE, f"no testbed {name!r} stands here (standing: {standing_now})") from error
    profile = Profile.model_validate(description["profile"], strict=False)
    return Testbed(name, Topology.of(profile), _directory(name), description["emulation"])


def _directory(name: str) -> Path:
    return _RUN / (_STATE + name)


def check_name(name: str) -> None:
    """Raise CommandError (exit 64) unless a testbed may be called ``name``."""
    if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", name):
        raise CommandError(
            Exit.USAGE, f"testbed name {name!r}: accepted: 1 to 16 of a-z and 0-9, starting with a letter"
        )


def standing_alone() -> AbstractContextManager[int]:
    """Nobody else reserves a name or looks for orphans meanwhile: a folder that is not locked yet looks like one."""
    return directories.lock_file(_RUN / "tributary-testbeds.lock", wait=True)


def _lock(directory: Path) -> AbstractContextManager[int]:
    return directories.lock_file(directory / "testbed.lock")


def _is_orphan(directory: Path) -> bool:
    try:
        with _lock(directory):
            return not json.loads((directory / "testbed.json").read_text())["kept"]
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True


def _describe(testbed: Testbed, profile: Profile, kept: bool) -> None:
    description = {"kept": kept, "emulation": testbed.emulation, "profile": profile.model_dump(mode="json")}
    new = testbed.directory / "testbed.json.new"
    new.write_text(json.dumps(description))
    new.replace(testbed.directory / "testbed.json")


def _all_namespaces() -> list[str]:
    return [line.split()[0] for line in run(["ip", "netns", "list"]).splitlines()]


def _build(testbed: Testbed, seed: int) -> None:
    topology = testbed.topology
    nodes = {name: testbed.node(name) for name in topology.nodes}
    for node in nodes.values():
        node.create()
    for link in topology.links:
        connect(link, testbed.client, nodes[link.node], testbed.gateway, seed)
    lay(_CORE.format(at=topology), nodes)
    for link in topology.links:
        for of_family in (("-4", 24, link.client4, link.gateway4), ("-6", 64, link.client6, link.gateway6)):
            lay(_LINK.format(*of_family, table=100 + link.number, link=link), nodes)
    for node in (testbed.client, testbed.gateway):
        allow_subflows(node)
    for link in topology.joining:
        for address in (link.client4, link.client6):
            testbed.client.ip("mptcp", "endpoint", "add", str(address), "dev", link.name, "subflow")


# Loose reverse-path filtering: a subflow's answer may come in over any link (ip-sysctl.rst, rp_filter).
_CORE = """
client gateway server: sysctl -qw net.ipv4.conf.all.rp_filter=2
gateway: sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
server: sysctl -qw net.mptcp.enabled=0
gateway:core {at.CORE_GATEWAY4}/24 {at.CORE_GATEWAY6}/64 -- server:core {at.SERVER4}/24 {at.SERVER6}/64
gateway: ip address add {at.PROXY4}/32 dev lo
gateway: ip address add {at.PROXY6}/128 dev lo
server: ip route add default via {at.CORE_GATEWAY4}
server: ip route add default via {at.CORE_GATEWAY6}
"""
# Each source address of the client has its own default route; without one the first link that is up serves.
_LINK = """
client: ip address add {2}/{1} dev {link.name} nodad
gateway: ip address add {3}/{1} dev {link.name} nodad
client: ip {0} rule add from {2} lookup {table}
client: ip route add default via {3} dev {link.name} table {table}
client: ip route add default via {3} dev {link.name} metric {link.number}
"""


def allow_subflows(node: Node) -> None:
    """As many further subflows as the kernel takes."""
    node.ip("mptcp", "limits", "set", "subflows", str(MPTCP_MOST), "add_addr_accepted", str(MPTCP_MOST))
