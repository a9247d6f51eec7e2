import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from experiments.probes.download import subflows_of
from experiments.testbed.build import (
    Testbed,
    find,
    names,
    reserved,
    standing,
    standing_alone,
    take_down,
    take_down_orphans,
)
from experiments.testbed.profile import DEFAULT
from experiments.testbed.selfcheck import check_links
from experiments.testbed.topology import Profile
from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually, process
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check, load

pytestmark = pytest.mark.slow

TESTBED = (sys.executable, "-m", "experiments.testbed")
PROFILE = load(DEFAULT, Profile)


def run(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TESTBED, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, **how)


@pytest.mark.parametrize(
    ("rate", "delay", "complaint"),
    [("110mbit", "5ms", "down_mbps .* at most 5%"), ("100mbit", "6ms", "rtt_ms .* at most 5% or 1 ms")],
)
def test_a_link_that_is_off_by_more_than_the_tolerance_is_refused(
    testbed: Testbed, rate: str, delay: str, complaint: str
) -> None:
    link = testbed.topology.links[0]
    described = check({"links": {"wired": {"rate": rate, "delay": delay}}}, Profile, "p")
    lying = Testbed(testbed.name, type(testbed.topology).of(described), testbed.directory, testbed.emulation)
    with pytest.raises(CommandError, match=f"link {link.name}: {complaint}") as caught:
        check_links(lying, pauses=(0.0,))
    assert caught.value.code == Exit.IN_USE


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "203.0.113.2", "2001:db8::2"])
@pytest.mark.parametrize("link", [0, 1])
def test_gateway_and_server_are_reached_over_every_link(testbed: Testbed, link: int, address: str) -> None:
    own = testbed.topology.links[link]
    source = own.client6 if ":" in address else own.client4
    assert " bytes from " in testbed.client.run("ping", "-n", "-c", "1", "-I", str(source), address)


def test_the_server_speaks_no_mptcp(testbed: Testbed) -> None:
    assert testbed.server.run("sysctl", "-n", "net.mptcp.enabled").strip() == "0"
    assert testbed.client.run("sysctl", "-n", "net.mptcp.enabled").strip() == "1"


def test_loss_loses_its_share_of_packets(name: str) -> None:
    profile = check({"links": {"lossy": {"rate": "100mbit", "down": {"loss": "20%"}}}}, Profile, "p")
    with standing(name, profile) as testbed:
        printed = testbed.client.run("ping", "-n", "-q", "-c", "1000", "-i", "0.002", "-W", "1", "10.0.1.1")
        lost = float(printed.split("% packet loss")[0].split()[-1])
    assert 15 < lost < 25  # 20 % +- 4 standard deviations of 1,000 trials


def test_two_testbeds_of_three_links_stand_side_by_side(name: str) -> None:
    # Two of them are words of ip-link(8).
    three = {link: {"rate": "10mbit", "delay": "1ms"} for link in ("l", "up", "l3")}
    profile = check({"links": three}, Profile, "p")
    with standing(f"{name}a", profile) as one, standing(f"{name}b", profile) as other:
        for testbed in (one, other):
            assert " 0% packet loss" in testbed.client.run("ping", "-c", "1", "-I", "10.0.3.2", "203.0.113.2")


def test_a_second_testbed_of_the_same_name_is_refused_and_harms_nothing(testbed: Testbed) -> None:
    with pytest.raises(CommandError, match="stands already") as caught, standing(testbed.name, PROFILE):
        pass
    assert caught.value.code == Exit.IN_USE
    assert " 0% packet loss" in testbed.client.run("ping", "-c", "1", "10.0.1.1")


def test_up_exec_status_and_down_leave_the_machine_as_it_was(name: str) -> None:
    before, own = traces(), sorted(Path("/run/tributary").glob("converter.*"))
    assert run("up", "--name", name, "--with", "converter").returncode == 0
    command = [sys.executable, "-m", "command", "status", "converter", "--json"]
    assert json.loads(run("exec", "--name", name, "gateway", "--", *command).stdout)["connections"] is not None
    assert "10.0.2.2" in run("exec", "--name", name, "client", "--", "ip", "address").stdout
    assert run("exec", "--name", name, "client", "--", "false").returncode == 1
    rows = [row for row in json.loads(run("status", "--json").stdout) if row["testbed"] == name]
    assert [row["node"] for row in rows] == ["client", "link-wired", "link-wireless", "gateway", "server"]
    assert run("down", "--name", name).returncode == 0
    eventually(lambda: nothing_new(before))
    assert sorted(Path("/run/tributary").glob("converter.*")) == own


def test_a_dry_run_shows_the_links_and_changes_nothing(name: str) -> None:
    before = traces()
    shown = run("up", "--dry-run", "--name", name, "--set", "wired.rate=50mbit")
    assert shown.returncode == 0
    assert "50mbit" in shown.stdout
    eventually(lambda: nothing_new(before))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_up_that_is_interrupted_leaves_nothing(name: str, how: signal.Signals) -> None:
    before = traces()
    with process(*TESTBED, "up", "--name", name, stderr=subprocess.DEVNULL) as up:
        wait_until_built(name)
        up.send_signal(how)
        assert up.wait(30) == 128 + how
    eventually(lambda: nothing_new(before))


def test_down_removes_what_kill_9_left_behind_and_nothing_else(testbed: Testbed, name: str) -> None:
    before = traces()
    with process(*TESTBED, "up", "--name", name, stderr=subprocess.DEVNULL) as up:
        wait_until_built(name)
        up.kill()
    assert name in names()
    assert run("down").returncode == 0
    eventually(lambda: nothing_new(before))
    assert " 0% packet loss" in testbed.client.run("ping", "-c", "1", "10.0.1.1")


def test_a_sweep_for_orphans_waits_for_a_testbed_that_is_just_being_made(name: str) -> None:
    """Between its folder and its lock a new testbed looks like what a killed run has left: nobody looks meanwhile."""
    swept: list[list[str]] = []
    sweep = threading.Thread(target=lambda: swept.append(take_down_orphans()))
    with standing_alone():
        sweep.start()
        sweep.join(0.3)
        assert sweep.is_alive() and not swept
    sweep.join(20)
    assert swept and name not in swept[0]


def test_runs_that_begin_at_once_take_none_of_each_others_testbeds(name: str) -> None:
    """Each looks for orphans first and then makes its own, as two commands do that are started together."""

    def begin(number: int) -> bool:
        take_down_orphans()
        with reserved(f"{name}{number}") as directory:
            take_down_orphans()
            return directory.exists()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(begin, range(40)))
    take_down_orphans()
    assert not [each for each in names() if each.startswith(name)]


def test_a_kept_testbed_is_no_orphan(name: str) -> None:
    with standing(name, PROFILE, keep=True):
        pass
    assert name not in take_down_orphans()
    assert find(name).name == name
    take_down(name)
    assert name not in names()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["exec", "nowhere", "--", "ls"], Exit.USAGE, "node 'nowhere': accepted: client, link-wired"),
        (["exec", "client"], Exit.USAGE, "a command is missing"),
        (["up", "--with", "apache"], Exit.USAGE, "apache: accepted: squid, converter, throttler"),
        (["up", "--name", "No!"], Exit.USAGE, "testbed name 'No!': accepted: 1 to 16 of a-z"),
        (["up", "--profile", "/nowhere.toml"], Exit.NO_INPUT, "/nowhere.toml: cannot be read"),
        (["sideways"], Exit.USAGE, "sideways"),
    ],
)
def test_a_wrong_command_gets_one_line(testbed: Testbed, arguments: list[str], code: Exit, message: str) -> None:
    named = [*arguments[:1], "--name", testbed.name, *arguments[1:]] if arguments[0] == "exec" else arguments
    done = run(*named)
    assert done.returncode == code
    assert message in done.stderr.splitlines()[-1]


def test_without_root_nothing_is_tried() -> None:
    before = traces()
    done = run("up", user="nobody", group="nogroup")
    assert (done.returncode, traces()) == (Exit.NO_PERMISSION, before)
    assert "needs root" in done.stderr


def test_without_a_tool_nothing_is_tried(tmp_path: Path) -> None:
    before = traces()
    for tool in ("ip", "tc", "ss", "sysctl", "ethtool", "ping", "nginx", "squid", "mptcpize"):
        found = shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    done = run("up", env=os.environ | {"PATH": str(tmp_path)})
    assert (done.returncode, traces()) == (Exit.UNAVAILABLE, before)
    assert "not found: nft" in done.stderr


def wait_until_built(name: str) -> None:
    """Until the testbed has its first namespaces, so that there is something to clean up."""
    eventually(Path("/run/netns", f"trib-{name}-gateway").exists)


def test_the_kernel_counts_the_bytes_of_a_plain_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            server.sendall(b"12345")
            assert client.recv(5) == b"12345"
            assert [subflow.received for subflow in subflows_of(client)] == [5]
