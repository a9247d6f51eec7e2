"""--hosts: what its file may say, what is refused, and what would be done where."""

import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.hosts.caretaker import version
from experiments.hosts.connection import Login, checked, unreached
from experiments.hosts.settings import HostsSettings, load_hosts
from experiments.hosts.testbed import plan, steps, unmeasured
from experiments.scenarios.legacy import Legacy
from experiments.scenarios.multipath import Multipath
from experiments.study.__main__ import main
from experiments.study.changes import orders
from experiments.study.hosts import place
from experiments.testbed.profile import PROFILES
from experiments.testbed.selfcheck import DOWN, RTT, UP
from experiments.testbed.topology import CLIENT, SERVER, Topology
from tests.refusals import command_error, usage_error
from tributary import cargo
from tributary.paths import ROOT
from tributary.settings.errors import Exit
from tributary.settings.files import check

EXAMPLE = ROOT / "experiments/hosts/hosts.toml"
WIRED = {"client": "192.168.1.2", "gateway": "192.168.1.1", "client6": "fd00:1::2", "gateway6": "fd00:1::1"}
WIRELESS = {"client": "192.168.2.2", "gateway": "192.168.2.1", "client6": "fd00:2::2", "gateway6": "fd00:2::1"}


def settings(**changes: object) -> HostsSettings:
    """Two links with IPv6, of which one is described."""
    server = {"host": "c", "address": "203.0.113.2", "address6": "2001:db8::2", "via": "203.0.113.1"}
    document: dict[str, object] = {
        "client": {"host": "a", "user": "root"},
        "gateway": {"host": "b"},
        "server": server,
        "links": {"eth0": {**WIRED, "rate": "50mbit", "delay": "5ms", "up": {"rate": "10mbit"}}, "wlan0": WIRELESS},
    }
    return check(document | changes, HostsSettings, "h")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"client": {"host": "a", "colour": 1}}, "h: client.colour = 1: accepted: one of the keys checkout, host"),
        ({"client": {"user": "root"}}, "client.host = '(missing)': accepted: a name or an address that ssh"),
        ({"client": {"host": "-oProxyCommand=x"}}, "client.host = '-oProxyCommand=x': accepted: a name or an address"),
        ({"client": {"host": "a", "port": 0}}, "client.port = 0: accepted: a whole number from 1 to 65535"),
        (
            {"client": {"host": "a", "checkout": "tributary"}},
            "client.checkout = 'tributary': accepted: an absolute path",
        ),
        ({"server": {"host": "c"}}, "server.address = '(missing)': accepted: an IPv4 address"),
        ({"server": {"host": "c", "address": "::1"}}, "server.address = '::1': accepted: an IPv4 address"),
        ({"links": {}}, "links = {}: accepted: one table [links.INTERFACE]"),
        ({"links": {"eth0": {"client": "10.0.0.1"}}}, "links.eth0.gateway = '(missing)': accepted: an IPv4 address"),
        ({"links": {"eth0": {**WIRED, "rate": 5}}}, "links.eth0.rate = 5: accepted: a rate above zero"),
        ({"links": {"eth0": {**WIRED, "gateway6": None}}}, "client6 and gateway6 together, or neither"),
    ],
)
def test_each_error_names_the_key_and_what_is_accepted(changes: dict[str, object], complaint: str) -> None:
    with command_error(Exit.USAGE, complaint):
        settings(**changes)


def test_what_is_not_described_is_measured_and_not_judged() -> None:
    made = settings()
    assert made.unknown == [("wlan0", RTT), ("wlan0", DOWN), ("wlan0", UP)]
    profile = made.profile({("wlan0", RTT): 30.0, ("wlan0", DOWN): 21.5, ("wlan0", UP): 4.25})
    eth0, wlan0 = made.placed(Topology.of(profile)).links
    assert [str(way.rate) for way in (eth0.down, eth0.up, wlan0.down, wlan0.up)] == [
        "50mbit",
        "10mbit",
        "21500kbit",
        "4250kbit",
    ]
    assert (eth0.rtt, wlan0.rtt) == (0.01, 0.03)
    assert eth0.judged(RTT) and eth0.judged(UP) and not wlan0.judged(DOWN)


def test_addresses_are_those_of_the_file() -> None:
    made = settings()
    topology = made.placed(Topology.of(unmeasured(made)))
    assert (str(topology.PROXY4), str(topology.SERVER6)) == ("192.168.1.1", "2001:db8::2")
    assert [topology.path_of(address) for address in ("192.168.1.2", "fd00:2::2")] == ["eth0", "wlan0"]
    assert topology.OPENED == ()
    private = settings(server={"host": "c", "address": "10.1.2.3"})
    assert private.placed(Topology.of(unmeasured(private))).OPENED == ("10.1.2.3/32",)


def test_without_ipv6_everywhere_nothing_is_measured_by_it() -> None:
    made = settings(server={"host": "c", "address": "203.0.113.2"})
    (order,) = orders([Multipath()], [], profile=unmeasured(made), place=place(made))
    assert {point["family"] for point in order.points} == {"ipv4"}
    assert len(order.points) == 4


def test_only_what_goes_to_these_machines_is_routed_otherwise_and_all_of_it_is_undone() -> None:
    made = settings()
    done = list(steps(made.placed(Topology.of(unmeasured(made))), made))
    routed = [step for step in done if " rule " in step.do or " route " in step.do]
    assert all(step.undo == step.do.replace(" add ", " delete ") for step in routed)
    assert all(" to " in step.do for step in routed if " rule " in step.do)
    assert [step.do for step in done if step.role == SERVER and step.undo] == [
        "ip -4 route add 192.168.1.2 via 203.0.113.1",
        "ip -4 route add 192.168.2.2 via 203.0.113.1",
    ]
    endpoints = [step.do for step in done if "endpoint add" in step.do]
    assert endpoints == [
        f"ip mptcp endpoint add {address} dev wlan0 subflow" for address in ("192.168.2.2", "fd00:2::2")
    ]
    assert {step.role for step in done if "endpoint add" in step.do} == {CLIENT}


def test_the_example_is_accepted_and_relative_paths_begin_beside_the_file(tmp_path: Path) -> None:
    assert load_hosts(EXAMPLE).client.checkout == "/opt/tributary"
    beside = tmp_path / "hosts.toml"
    beside.write_text('ssh_config = "config"\n' + EXAMPLE.read_text())
    assert load_hosts(beside).ssh_config == str(tmp_path / "config")


def test_a_dry_run_says_what_would_be_done_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "legacy", "--hosts", str(EXAMPLE), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "legacy: 2 points, 3 times each"
    assert lines[3:] == list(plan(load_hosts(EXAMPLE)))
    assert "gateway root@192.0.2.1, /opt/tributary" in lines
    assert "  ip -4 rule add from 192.168.2.2 to 203.0.113.2 lookup 4202 priority 4202" in lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["grid"], "--hosts: grid: makes its links itself: accepted: legacy, multipath, buffer, mtu"),
        (["integrity"], "--hosts: integrity: makes its links itself"),
        (["legacy", "--set", "eth0.delay=5ms"], "--set: eth0.delay = '5ms': accepted: options of the experiment"),
        (["legacy", "--sweep", "eth0.delay=5ms,9ms"], "--sweep: eth0.delay = '5ms,9ms': accepted: congestion"),
    ],
)
def test_what_makes_or_changes_links_is_refused(arguments: list[str], complaint: str) -> None:
    with command_error(Exit.USAGE, complaint):
        main(["run", *arguments, "--hosts", str(EXAMPLE), "--dry-run"])


def test_a_profile_and_hosts_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    both = ["run", "legacy", "--hosts", str(EXAMPLE), "--profile", str(PROFILES / "two-fibre.toml"), "--dry-run"]
    assert "--profile and --hosts: accepted: one of them" in usage_error(main, both, capsys)


LOGIN = Login("gateway", settings().gateway, None, Path("/control"))
FIT = {"user": 0, "version": version(), "mptcp": True, "missing": [], "converter": cargo.sources(), "cache": "/cache"}
BUILD = "run /opt/tributary/scripts/setup.d/programs /cache --released tributary-converter tributary-load there"


@pytest.mark.parametrize(
    ("about", "code", "complaint"),
    [
        ({"user": 1000}, Exit.NO_PERMISSION, "not root: accepted: user = 'root'"),
        ({"version": "0"}, Exit.UNAVAILABLE, "/opt/tributary is another version of Tributary (0, here "),
        ({"mptcp": False}, Exit.UNAVAILABLE, "its kernel has no MPTCP"),
        ({"missing": ["nginx"]}, Exit.UNAVAILABLE, "not found: nginx: run /opt/tributary/scripts/setup there"),
        ({"converter": ""}, Exit.UNAVAILABLE, f"tributary-converter: not found: {BUILD}"),
        ({"converter": "0" * 64}, Exit.UNAVAILABLE, f"tributary-converter: was built from other sources: {BUILD}"),
    ],
)
def test_what_a_machine_lacks_comes_with_name_and_remedy(about: dict[str, object], code: Exit, complaint: str) -> None:
    assert checked(LOGIN, FIT) == FIT
    with command_error(code, begins=f"gateway (b): {complaint}"):
        checked(LOGIN, FIT | about)


def test_a_converter_of_another_commit_is_no_part_of_this_one(tmp_path: Path) -> None:
    """The gateway's program is known by the sources that it was built from, which the build notes beside it."""
    script = ROOT / "scripts/setup.d/programs"
    crates = [ROOT / "converter/proto", ROOT / "handoff/link"]
    files = [path for crate in crates for path in crate.rglob("*.rs")]
    scripts = (script, script.with_name("workspace"))
    for path in (*scripts, *ROOT.glob("Cargo.*"), *(ROOT / "guard").glob("*.toml"), *files):
        copied = tmp_path / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)

    def sources() -> str:
        command = [str(tmp_path / script.relative_to(ROOT)), str(tmp_path / "cache"), "--sources"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    before = sources()
    for other in (
        "target/built",
        "converter/conformance/__pycache__/rig.cpython-311.pyc",
        "converter/conformance/rig.py",
    ):
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("no source")
    assert sources() == before
    for crate in crates:
        source = next((tmp_path / crate.relative_to(ROOT)).rglob("*.rs"))
        source.write_text(source.read_text() + "// another commit\n")
        assert sources() != before
        before = sources()


@pytest.mark.parametrize(
    ("code", "said", "expected", "complaint"),
    [
        (255, "root@b: Permission denied (publickey).", Exit.NO_PERMISSION, "no key is accepted"),
        (255, "Host key verification failed.", Exit.NO_PERMISSION, "its host key is not known: connect once: ssh b"),
        (
            255,
            "ssh: connect to host b port 22: Connection refused",
            Exit.UNAVAILABLE,
            "cannot be reached: ssh: connect",
        ),
        (
            2,
            "bash: line 1: cd: /opt/tributary: No such file",
            Exit.UNAVAILABLE,
            "no Tributary that runs in /opt/tributary",
        ),
    ],
)
def test_why_nobody_answers_is_told_with_the_remedy(code: int, said: str, expected: Exit, complaint: str) -> None:
    failure = unreached(LOGIN, code, [said, ""])
    assert str(failure).startswith(f"gateway (b): {complaint}")
    assert failure.code == expected


def test_the_kernels_settings_can_be_swept_there() -> None:
    made = settings()
    sweeps = ["congestion=cubic,reno"]
    (order,) = orders([Legacy()], [], sweeps=sweeps, profile=unmeasured(made), place=place(made))
    assert len(order.points) == 8
    assert {point["congestion"] for point in order.points} == {"cubic", "reno"}
