"""Experiments on three machines that are reached over SSH: namespaces of a testbed, each with an sshd and a network to
this one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import pytest

from experiments.hosts.caretaker import SILENCE, marked
from experiments.testbed.build import Testbed, standing
from experiments.testbed.node import Node, Process, run
from experiments.testbed.topology import CLIENT, GATEWAY, SERVER, Profile
from tests.netns.traces import traces
from tests.netns.world import eventually, process
from tributary import cargo
from tributary.paths import CACHE, ROOT
from tributary.settings.errors import Exit
from tributary.settings.files import check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="no sshd (openssh-server)"),
]

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
        eventually(lambda: all(testbed.node(role).listens(22) for role in ROLES))
        yield World(testbed, folder, sshds)


def _manage(node: Node, name: str, role: str) -> None:
    """A network of this machine and ``node`` alone."""
    here, number = f"{name}-{role}"[:15], ROLES.index(role)
    run(["ip", "link", "add", "name", here, "type", "veth", "peer", "name", "manage", "netns", node.namespace])
    run(["ip", "address", "add", f"10.200.{number}.1/30", "dev", here])
    run(["ip", "link", "set", here, "up"])
    node.ip("address", "add", f"{address_of(role)}/30", "dev", "manage")
    node.ip("link", "set", "manage", "up")


def sessions(world: World, role: str) -> list[int]:
    """The processes of sshd that hold a connection to the machine of ``role``."""
    listener = world.sshds[role].popen.pid
    shown = subprocess.run(["pgrep", "-P", str(listener)], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in shown.split()]


BRIEF = ("--quick", "--most-stolen", "100%", "--tolerance", "50%", "--set", "size=3MB", "--set", "warm_up=0.1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with machines("hosts", tmp_path_factory.mktemp("ssh")) as made:
        yield made


def command(world: World, experiment: str, results: Path, *more: str, hosts: Path | None = None) -> list[str]:
    study = [sys.executable, "-m", "experiments.study", "run", experiment, *more]
    return [*study, "--hosts", str(hosts or world.file), "--results", str(results), "--testbed", "away"]


def ran(world: World, experiment: str, results: Path, *more: str, hosts: Path | None = None) -> tuple[int, str, str]:
    line = command(world, experiment, results, *more, hosts=hosts)
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def test_a_run_leaves_results_and_the_machines_as_they_were(world: World, tmp_path: Path) -> None:
    before, state = traces(), world.state()
    code, out, err = ran(world, "multipath", tmp_path, *BRIEF, "--json")
    assert code in (0, Exit.WRONG_RESULT), err
    assert world.state() == state
    assert traces() == before
    assert not left_running()
    assert json.loads(out)["multipath"]
    (folder,) = (tmp_path / "experiment/multipath").iterdir()
    readings = [json.loads(path.read_text()) for path in (folder / "readings").iterdir()]
    assert len(readings) == 8
    for reading in readings:
        assert reading["values"]["subflows"] == (1 if reading["point"]["by"] == "legacy" else 2)
    (stood,) = map(json.loads, (folder / "testbeds.jsonl").read_text().splitlines())
    assert stood["emulated_by"] == "none: real links"
    judged = {(each["link"], each["what"]): each["judged"] for each in stood["measured"]}
    assert {link for (link, _), yes in judged.items() if yes} == {"wired"}
    assert len(judged) == 6
    plan = json.loads((folder / "manifest.json").read_text())["plan"]
    assert [plan["hosts"][role]["at"] for role in ROLES] == [address_of(role) for role in ROLES]
    assert plan["links"]["links"]["wired"]["down"]["rate"] == "40mbit"
    found = next(each for each in stood["measured"] if (each["link"], each["what"]) == ("wireless", "down_mbps"))
    assert 5 < found["described"] < 20
    report = [sys.executable, "-m", "experiments.study", "report", "multipath", "--results", str(tmp_path)]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    assert "none: real links" in (tmp_path / "experiment/report.html").read_text()


def test_packets_of_other_sizes_are_put_back(world: World, tmp_path: Path) -> None:
    before, state = traces(), world.state()
    sizes = ("--set", "mtu=1400", "--set", "seconds=1", "--set", "warm_up=0.1", "--set", "buffer=4MB")
    code, _, err = ran(world, "mtu", tmp_path, *BRIEF[:5], *sizes, "--sweep", "congestion=reno")
    assert code in (0, Exit.WRONG_RESULT), err
    assert world.state() == state
    assert traces() == before


@contextmanager
def begun(world: World, results: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose first reading is taken."""
    readings = "experiment/legacy/*.partial/readings/*.json"
    with process(*command(world, "legacy", results, *BRIEF), stderr=subprocess.PIPE) as study:
        eventually(lambda: study.poll() is not None or list(results.glob(readings)), 150)
        assert study.poll() is None and study.stderr is not None, study.stderr and study.stderr.read()
        yield study


def left_running() -> list[int]:
    return [pid for role in ROLES for pid in marked(f"away-{role}")]


def wait_until_put_back(world: World, state: dict[str, str], before: Mapping[str, object]) -> None:
    deadline = time.monotonic() + 60
    # All that the machines are takes longest to read.
    while left_running() or traces() != before or world.state() != state:
        assert time.monotonic() < deadline, [key for key, value in world.state().items() if value != state[key]]
        time.sleep(0.2)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_or_killed_leaves_nothing(world: World, tmp_path: Path, how: signal.Signals) -> None:
    before, state = traces(), world.state()
    with begun(world, tmp_path) as study:
        study.send_signal(how)
        assert study.wait(60) == (128 + how if how == signal.SIGINT else -how)
    if how == signal.SIGKILL:  # what ends by itself does so in its own time; a killed process leaves its private folder
        wait_until_put_back(world, state, before | {gettempdir(): traces()[gettempdir()]})
        for folder in Path(gettempdir()).glob("tributary-hosts-*"):
            shutil.rmtree(folder)
    assert world.state() == state
    assert traces() == before


@pytest.mark.parametrize(("role", "silently"), [("gateway", False), ("client", True)])
def test_a_connection_that_breaks_ends_the_run_and_the_machine_puts_itself_back(
    world: World, tmp_path: Path, role: str, silently: bool
) -> None:
    before, state = traces(), world.state()
    with begun(world, tmp_path) as study:
        if silently:
            world.testbed.node(role).ip("link", "set", "manage", "down")
        else:
            for pid in sessions(world, role):
                os.kill(pid, signal.SIGKILL)
        _, err = study.communicate(timeout=90)
    assert study.returncode == Exit.UNAVAILABLE, err
    assert f"{role} ({address_of(role)}): the connection broke" in err.splitlines()[-1]
    if silently:
        time.sleep(SILENCE)
        world.testbed.node(role).ip("link", "set", "manage", "up")
    wait_until_put_back(world, state, before)


def test_what_a_machine_lacks_is_told_by_its_name(world: World, tmp_path: Path) -> None:
    before = traces()
    (world.folder / "elsewhere").mkdir()
    hosts = world.written("none.toml", gateway=str(world.folder / "elsewhere"))
    code, _, err = ran(world, "legacy", tmp_path, hosts=hosts)
    assert (code, err.splitlines()[-1].split(": ")[:2]) == (
        Exit.UNAVAILABLE,
        ["experiment", f"gateway ({address_of('gateway')})"],
    )
    assert "scripts/setup" in err
    assert traces() == before


def test_a_machine_that_does_not_answer_or_takes_no_key_is_told_by_its_name(world: World, tmp_path: Path) -> None:
    text = world.file.read_text()
    away = world.folder / "away.toml"
    away.write_text(text.replace(address_of("server"), "10.200.2.1"))
    code, _, err = ran(world, "legacy", tmp_path, hosts=away)
    assert (code, "server (10.200.2.1): cannot be reached" in err) == (Exit.UNAVAILABLE, True), err
    (world.folder / "no-key").write_text((world.folder / "ssh_config").read_text().replace("/client\n", "/host\n"))
    refused = world.folder / "refused.toml"
    refused.write_text(text.replace('"ssh_config"', '"no-key"'))
    code, _, err = ran(world, "legacy", tmp_path, hosts=refused)
    assert (code, f"client ({address_of('client')}): no key is accepted" in err) == (Exit.NO_PERMISSION, True), err
