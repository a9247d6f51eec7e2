"""A testbed of real machines: what is set up on them, what their links measure, and that all of it is put back."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.hosts.caretaker import MARK
from experiments.hosts.connection import Host, Login, connected
from experiments.hosts.settings import ROLES, HostsSettings
from experiments.testbed.build import Testbed, allow_subflows, check_name
from experiments.testbed.node import Node, Process
from experiments.testbed.selfcheck import measured_anew
from experiments.testbed.topology import CLIENT, GATEWAY, SERVER, Profile, Topology
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import CommandError, Exit


@dataclass(frozen=True)
class HostNode(Node):
    """A machine. ``directory`` is a folder there, ``logs`` one here, for what its processes print."""

    host: Host
    logs: Path

    def command(self, arguments: Sequence[str]) -> list[str]:
        """``arguments`` as a command that runs there; the Python, checkout and cache of here are those of there."""
        return self.host.command([self._there(word) for word in arguments])

    def there(self, path: Path) -> Path:
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


EMULATION = "none: real links"
_TABLE = 4200  # routing tables and rules of the client: this and the number of the link


@dataclass(frozen=True)
class Step:
    """One thing that is done on a machine of a role, and what undoes it; without that the caretaker knows."""

    role: str
    do: str
    undo: str = ""


def steps(topology: Topology, settings: HostsSettings) -> Iterator[Step]:
    """What is set up before anything is measured. Only what goes to these machines is routed otherwise than before."""
    for role in (CLIENT, GATEWAY, SERVER):
        yield Step(role, "sysctl -qw net.ipv4.conf.all.rp_filter=2")
    yield Step(GATEWAY, "sysctl -qw net.ipv4.ip_forward=1")
    if "ipv6" in topology.families:
        yield Step(GATEWAY, "sysctl -qw net.ipv6.conf.all.forwarding=1")
    yield Step(SERVER, "sysctl -e -qw net.mptcp.enabled=0")
    for role in (CLIENT, GATEWAY):
        yield Step(role, "ip mptcp endpoint flush")
    for family in topology.families:
        yield from _routes(topology, settings, family)
    for family in topology.families:
        for link in topology.joining:
            address = link.client6 if family == "ipv6" else link.client4
            yield Step(CLIENT, f"ip mptcp endpoint add {address} dev {link.name} subflow")


def _routes(topology: Topology, settings: HostsSettings, family: str) -> Iterator[Step]:
    """Each source address of the client has its own way to the gateway and the server; the server, if asked, back."""
    ipv6 = family == "ipv6"
    option = "-6" if ipv6 else "-4"
    far = {topology.PROXY6, topology.SERVER6} if ipv6 else {topology.PROXY4, topology.SERVER4}
    back = settings.server.via6 if ipv6 else settings.server.via
    for link in topology.links:
        known, table = settings.links[link.name], _TABLE + link.number
        source, gateway = (link.client6, link.gateway6) if ipv6 else (link.client4, link.gateway4)
        via = (known.via6 if ipv6 else known.via) or gateway
        route = f"default via {via} dev {link.name} table {table}"
        yield Step(CLIENT, f"ip {option} route add {route}", f"ip {option} route delete {route}")
        for target in sorted(map(str, {*far, gateway})):
            rule = f"from {source} to {target} lookup {table} priority {table}"
            yield Step(CLIENT, f"ip {option} rule add {rule}", f"ip {option} rule delete {rule}")
        if back:
            route = f"{source} via {back}"
            yield Step(SERVER, f"ip {option} route add {route}", f"ip {option} route delete {route}")


@dataclass(frozen=True)
class HostsTestbed(Testbed):
    """A testbed on ``hosts`` by their roles. ``directory`` is a folder here, which holds what their processes print."""

    hosts: Mapping[str, Host]

    def node(self, name: str) -> HostNode:
        host = self.hosts[name]
        return HostNode(host.tag, host.directory, host, self.directory)

    @property
    def converter(self) -> Path:
        """The native converter on the gateway, as its caretaker has had it built."""
        return self.hosts[GATEWAY].cache / "released/tributary-converter"

    def offer(self, size: int, seed: int) -> None:
        """Have the server make the random file of ``size`` bytes, unless it has it."""
        self.server.run(self.hosts[SERVER].about["python"], "-m", "experiments.testbed.server", str(size), str(seed))

    def set_mtu(self, mtu: int) -> None:
        links, server = self.topology.links, str(self.topology.SERVER4)
        for link in links:
            self._set_mtu(self.node(CLIENT), mtu, str(link.gateway4), "from", str(link.client4))
            self._set_mtu(self.node(GATEWAY), mtu, str(link.client4))
        self._set_mtu(self.node(GATEWAY), mtu, server)
        self._set_mtu(self.node(SERVER), mtu, str(links[0].client4))

    def _set_mtu(self, node: HostNode, mtu: int, *towards: str) -> None:
        (route,) = json.loads(node.ip("-j", "route", "get", *towards))
        (link,) = json.loads(node.ip("-j", "link", "show", "dev", route["dev"]))
        if link["mtu"] != mtu:
            now, then = (f"ip link set {route['dev']} mtu {each}" for each in (mtu, link["mtu"]))
            node.change(now, then)


@dataclass(frozen=True)
class Hosts:
    """The machines of ``settings``, connected, by their roles; ``logs`` is a folder here."""

    settings: HostsSettings
    connected: Mapping[str, Host]
    logs: Path

    def as_json(self) -> dict[str, object]:
        """For a manifest: the machines, what is known of their links, and that nothing emulates them."""
        machines = {
            role: {"at": str(host.login.settings)} | host.about["machine"] for role, host in self.connected.items()
        }
        links = {name: link.model_dump(mode="json", exclude_none=True) for name, link in self.settings.links.items()}
        return {"emulation": EMULATION, **machines, "links": links}

    @contextmanager
    def standing(self, name: str, profile: Profile) -> Iterator[Testbed]:
        """A testbed on them for the length of the block; raises CommandError: exit 75 if they serve another
        experiment.
        """
        topology = self.settings.placed(Topology.of(profile))
        testbed = HostsTestbed(name, topology, self.logs, EMULATION, self.connected)
        with ExitStack() as stack:
            for host in self.connected.values():
                host.tell(keep=True)
                stack.callback(host.tell, restore=True)
            for role in ROLES:
                testbed.node(role).set_congestion_control()
            for node in (testbed.client, testbed.gateway):
                allow_subflows(node)
            for step in steps(testbed.topology, self.settings):
                if step.undo:
                    testbed.node(step.role).change(step.do, step.undo)
                else:
                    testbed.node(step.role).run(*step.do.split())
            yield testbed

    def measured(self, name: str) -> Profile:
        """The links as they are described, and measured where they are not."""
        unknown = self.settings.unknown
        if not unknown:
            return self.settings.profile({})
        with self.standing(name, unmeasured(self.settings)) as testbed:
            ends = testbed.client, testbed.gateway
            links = {link.name: link for link in testbed.topology.links}
            measured = {(link, what): measured_anew(links[link], what, *ends) for link, what in unknown}
        return self.settings.profile(measured)


def unmeasured(settings: HostsSettings) -> Profile:
    """The links as described, and by figures that say nothing where they are not."""
    return settings.profile(dict.fromkeys(settings.unknown, 1.0))


@contextmanager
def connect(settings: HostsSettings, name: str) -> Iterator[Hosts]:
    """The machines for the length of the block, each checked first; raises CommandError if one is not as it has to
    be.
    """
    if shutil.which("ssh") is None:
        raise CommandError(Exit.UNAVAILABLE, "ssh: not found: apt-get install openssh-client")
    check_name(name)
    silence, open_end = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, silence)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tributary-hosts-")))
        hosts = {}
        for role in ROLES:
            login = Login(role, settings.host(role), settings.ssh_config, folder / f"{role}.ssh")
            hosts[role] = stack.enter_context(connected(login, name, silence))
        stack.callback(os.close, open_end)
        yield Hosts(settings, hosts, folder)


def plan(settings: HostsSettings) -> Iterator[str]:
    """What would be done, machine by machine, for people."""
    doing = list(steps(settings.placed(Topology.of(unmeasured(settings))), settings))
    for role in ROLES:
        yield f"{role} {settings.host(role)}, {settings.host(role).checkout}"
        yield from (f"  {shlex.join(step.do.split())}" for step in doing if step.role == role)
    for name, link in settings.links.items():
        known = ", ".join(sorted(link.described)) or "nothing"
        yield f"link {name}: {link.client} to {link.gateway}; judged: {known}"
