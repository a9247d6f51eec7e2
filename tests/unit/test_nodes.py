"""Nodes of a testbed: who has one, what a network is made of, what processes and the kernel say there."""

import os
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.testbed import appliance, build
from experiments.testbed.build import Testbed, alone, take_down_orphans
from experiments.testbed.links import kernel_has_qdisc
from experiments.testbed.network import node_names
from experiments.testbed.node import Node, Process
from experiments.testbed.topology import Topology
from experiments.testbed.usage import parse
from tests.refusals import command_error
from tributary.daemons import directories
from tributary.daemons.directories import lock_file
from tributary.settings.errors import Exit


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is /run to the testbeds of a machine that has no namespaces."""
    monkeypatch.setattr(build, "_RUN", tmp_path)
    monkeypatch.setattr(build, "_all_namespaces", list)
    return tmp_path


def test_the_testbeds_of_a_name_are_one_command_s_also_between_one_and_the_next(run: Path) -> None:
    with alone("mine"), alone("other"):
        with command_error(Exit.IN_USE, "another command measures on testbeds 'mine'"), alone("mine"):
            pass
        assert build.names() == []
    assert [*run.iterdir()] == []


def test_nobody_makes_a_testbed_anew_while_what_a_killed_run_left_of_it_goes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "tributary-testbed-killed").mkdir()
    removed = build.take_down

    def take_down(name: str) -> None:
        with pytest.raises(BlockingIOError), lock_file(run / "tributary-testbeds.lock"):
            pass
        removed(name)

    monkeypatch.setattr(build, "take_down", take_down)
    assert take_down_orphans() == ["killed"]
    assert build.names() == []


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The namespaces that were removed."""
    names: list[str] = []
    monkeypatch.setattr(Node, "delete", lambda node: names.append(node.namespace))
    return names


def test_a_probe_that_is_interrupted_while_it_is_made_leaves_nothing(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(_node: Node) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(Node, "create", create)
    with pytest.raises(SystemExit):
        kernel_has_qdisc("netem", "delay", "1ms")
    assert deleted == [f"tributary-probe-{os.getpid()}"]


def test_a_probe_goes_once_its_process_has(deleted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    namespaces = [f"tributary-probe-{pid}" for pid in (gone.pid, os.getpid())]
    monkeypatch.setattr(build, "_all_namespaces", lambda: namespaces)
    assert take_down_orphans() == []
    assert deleted == namespaces[:1]


NETWORK = """
# Two cables, and what is said to nodes.
*: sysctl -qw net.ipv4.ip_forward=1
client:wired 10.0.1.2/24 fd00:1::2/64 -- gateway:wired 10.0.1.1/24
gateway:core -- server:core
client gateway: ip rule add fwmark 1 lookup 99
observer:
"""


def test_nodes_are_those_that_cables_and_commands_name_in_their_order() -> None:
    assert node_names(NETWORK) == ["client", "gateway", "server", "observer"]


def ended(log: Path, printed: str) -> Process:
    """A process that has printed this on both streams, and failed."""
    log.write_text(printed)
    process = subprocess.Popen(["false"])
    process.wait()
    return Process(process, log)


def test_a_report_is_read_also_of_who_complains_behind_it(tmp_path: Path) -> None:
    printed = 'ready\n{"wrong": 1}\n{"wrong": 2}\nload: not every byte was right\n'
    assert ended(tmp_path / "log", printed).report() == {"wrong": 2}


def test_who_reports_nothing_is_named_with_what_it_said(tmp_path: Path) -> None:
    with command_error(Exit.SYSTEM, "false: printed no report: load: no server answers"):
        ended(tmp_path / "log", "load: no server answers\n").report()


NETSTAT = """\
TcpExt: SyncookiesSent TCPTimeouts
TcpExt: 0 7
MPTcpExt: MPCapableSYNRX OFOQueue
MPTcpExt: 2 30
"""


def test_names_are_those_of_nstat() -> None:
    found = parse(NETSTAT)
    assert (found["TcpExtTCPTimeouts"], found["MPTcpExtMPCapableSYNRX"], found["MPTcpExtOFOQueue"]) == (7, 2, 30)


def test_what_the_kernel_lacks_counts_as_none() -> None:
    assert parse(NETSTAT)["MPTcpExtFromTheFuture"] == 0


class Away(Node):
    """A node on another machine, where everything is ready at once."""

    def run(self, *_arguments: str) -> str:
        return "/run/tributary/converter.1.sock\n"

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        log = self.directory / f"{name}.log"
        with log.open("wb") as output:
            return Process(subprocess.Popen(["sh", "-c", "echo ready; exec sleep 60", *arguments], stdout=output), log)


@dataclass(frozen=True)
class OnMachines(Testbed):
    """A testbed of such nodes."""

    @property
    def converter(self) -> Path:
        return Path("converter")

    def node(self, name: str) -> Node:
        return Away(name, self.directory)


def test_nothing_is_made_here_for_a_converter_of_another_machine(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who measures on real machines needs no root, and has no /run/tributary."""
    monkeypatch.setattr(directories, "RUN", run / "tributary")
    with appliance.start_converter(OnMachines("mine", Topology(()), run, "none")):
        control = tomllib.loads((run / "converter.toml").read_text())["control"]
    assert control == {"socket": "/run/tributary/converter.1.sock"}
    assert not directories.RUN.exists()
