"""The conditions that experiments and benchmarks set, of links and of the machine: as described, and gone behind it."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from doctor.sysctls import parse
from experiments.bench.converter import mask, steered
from experiments.study.__main__ import main
from experiments.testbed import cables, cgroup
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cgroup import limited
from experiments.testbed.impairment import losing_bursts, lossy, other_address, without_address
from tests.netns.world import eventually, run, sysctl
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit


def lost(testbed: Testbed, address: str, count: int) -> float:
    """The share of pings to the gateway, from 0 to 1, that got no answer."""
    command = ("ping", "-n", "-q", "-c", str(count), "-i", "0.002", "-W", "1", address)
    printed = testbed.client.run("sh", "-c", f"{' '.join(command)} || true")
    found = re.search(r"([\d.]+)% packet loss", printed)
    assert found
    return float(found[1]) / 100


def shown(testbed: Testbed) -> list[str]:
    """All that an impairment could change on the two nodes."""
    inquiries = ("address show", "rule show", "route show table all", "mptcp endpoint show")
    told = [testbed.client.ip("-o", *inquiry.split()) for inquiry in inquiries]
    told[-1] = re.sub(r"id \d+ ", "", told[-1])
    rulesets = [end.run("nft", "list", "ruleset") for end in (testbed.client, testbed.gateway)]
    return ["\n".join(sorted(text.splitlines())) for text in told] + rulesets


def test_a_black_hole_swallows_all_of_one_link_and_nothing_of_the_other(testbed: Testbed) -> None:
    wired = testbed.topology.links[0]
    before = shown(testbed)
    # The neighbours are known: an inquiry that the black hole swallows is put again a second later.
    assert lost(testbed, "10.0.1.1", 5) == lost(testbed, "fd00:0:0:1::1", 5) == 0
    with lossy(testbed, wired):
        assert lost(testbed, "10.0.1.1", 5) == lost(testbed, "fd00:0:0:1::1", 5) == 1
        assert lost(testbed, "10.0.2.1", 5) == 0
    assert lost(testbed, "10.0.1.1", 5) == 0
    assert shown(testbed) == before


@pytest.mark.calm
def test_a_lossy_link_loses_its_share_each_way(testbed: Testbed) -> None:
    wired = testbed.topology.links[0]
    assert lost(testbed, "10.0.1.1", 5) == 0
    # While a neighbour is asked for, and questions get lost as well, no packet is sent at all.
    for end, other in ((testbed.client, wired.gateway4), (testbed.gateway, wired.client4)):
        end.ip("neighbor", "change", str(other), "dev", wired.name, "nud", "permanent")
    with lossy(testbed, wired, 50):
        share = lost(testbed, "10.0.1.1", 1000)
    assert 0.69 < share < 0.81  # 1 - 0.5 * 0.5, +- 4 standard deviations of 1,000 trials


def test_a_link_that_loses_bursts_is_silent_for_a_while_once_a_second(testbed: Testbed) -> None:
    wired, before = testbed.topology.links[0], shown(testbed)
    assert lost(testbed, "10.0.1.1", 5) == 0
    with losing_bursts(testbed, wired, 100, one_in=20):
        # Of 2 s and more: two or three times 0.1 s each way.
        assert 0.1 < lost(testbed, "10.0.1.1", 1000) < 0.35
    assert lost(testbed, "10.0.1.1", 5) == 0
    assert shown(testbed) == before


RETRANSMISSIONS = ROOT / "kernel-config/retransmissions.conf"


@pytest.mark.skipif(not Path("/proc/sys/net/ipv4/tcp_rto_max_ms").exists(), reason="a kernel before 6.15")
def test_a_connection_is_made_over_a_link_that_was_away_for_long(testbed: Testbed) -> None:
    """With the appliance's ceiling of a second for retransmissions, the kernel's 6 tries are over after 7 s."""
    settings = {key.replace(".", "__"): value for key, value in parse(RETRANSMISSIONS.read_text()).items()}
    with testbed.gateway.entered(), socket.create_server(("10.0.1.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('10.0.1.1', {port}), 60)"
        with sysctl(testbed.client, **settings):
            with lossy(testbed, testbed.topology.links[0]):
                connected = pool.submit(testbed.client.run, sys.executable, "-c", connect)
                time.sleep(9)
            connected.result()


def test_a_black_hole_ends_with_a_block_that_fails(testbed: Testbed) -> None:
    before = shown(testbed)
    with pytest.raises(KeyError), lossy(testbed, testbed.topology.links[0]):
        raise KeyError
    assert shown(testbed) == before


def test_a_black_hole_ends_at_either_end_though_it_is_gone_from_the_other(testbed: Testbed) -> None:
    before = shown(testbed)
    with pytest.raises(CommandError), lossy(testbed, testbed.topology.links[0]):
        testbed.client.run("nft", "delete", "table", "netdev", "impairment-wired")
    assert shown(testbed) == before


def test_an_address_goes_and_another_one_comes(testbed: Testbed) -> None:
    wireless = testbed.topology.links[1]
    before = shown(testbed)
    with without_address(testbed, wireless):
        assert "10.0.2." not in testbed.client.ip("address", "show", "dev", "wireless")
        assert "10.0.2." not in testbed.client.ip("mptcp", "endpoint", "show")
        with other_address(testbed, wireless, "10.0.2.3"):
            assert "10.0.2.3 " in testbed.client.ip("mptcp", "endpoint", "show")
            testbed.client.run("ping", "-n", "-c", "1", "-W", "2", "-I", "10.0.2.3", "203.0.113.2")
    testbed.client.run("ping", "-n", "-c", "1", "-W", "2", "-I", "10.0.2.2", "203.0.113.2")
    assert shown(testbed) == before


ENDS = (("client", "path1"), ("gateway", "path1"), ("gateway", "core"), ("server", "core"))


@pytest.fixture
def cabled() -> Iterator[Testbed]:
    with standing("steering", cables.IDLE) as testbed:
        cables.lay(testbed)
        yield testbed


def masks(testbed: Testbed) -> list[int]:
    files = [(testbed.node(node), f"/sys/class/net/{device}/queues/rx-0/rps_cpus") for node, device in ENDS]
    return [int(node.run("cat", file).replace(",", ""), 16) for node, file in files]


def test_the_clients_end_and_all_others_have_a_processor_each_for_the_length_of_the_block(cabled: Testbed) -> None:
    """The benchmark's receive packet steering, on the real kernel's cables."""
    processors = sorted(os.sched_getaffinity(0))
    first, last = (int(mask(each).replace(",", ""), 16) for each in (processors[0], processors[-1]))
    with pytest.raises(RuntimeError), steered(cabled, processors):
        assert masks(cabled) == [first, last, last, last]
        raise RuntimeError
    assert masks(cabled) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("sweep", "refused"),
    [
        ("scheduler=default,nosuch", "net.mptcp.scheduler=nosuch"),
        ("congestion=nosuch", "net.ipv4.tcp_congestion_control=nosuch"),
        ("net.ipv4.nosuch=1", "net.ipv4.nosuch=1"),
        ("net.ipv4.tcp_ecn=1,99", "net.ipv4.tcp_ecn=99"),
    ],
)
def test_a_setting_that_this_kernel_does_not_take_ends_an_experiment_before_anything_is_made(
    tmp_path: Path, sweep: str, refused: str
) -> None:
    before = run("ip", "netns", "list")
    with pytest.raises(CommandError, match=f"{refused}: this machine does not take it") as caught:
        main(["run", "multipath", "--sweep", sweep, "--results", str(tmp_path)])
    assert caught.value.code == Exit.UNAVAILABLE
    assert not list(tmp_path.iterdir())
    assert run("ip", "netns", "list") == before


NAME = f"tributary-test-{os.getpid()}"


def test_what_still_runs_in_a_control_group_ends_with_it_and_masks_no_exit_code() -> None:
    """As when SIGTERM comes while a converter is started again and again."""
    group = cgroup._hierarchy("memory")[0] / NAME
    with pytest.raises(SystemExit) as ended, limited(NAME, memory=64_000_000, processor=0.5) as wrapper:
        child = subprocess.Popen([*wrapper, "sleep", "60"])
        eventually(lambda: (group / "cgroup.procs").read_text().split() == [str(child.pid)])
        raise SystemExit(143)
    assert ended.value.code == 143
    assert child.wait(1) == -9
    assert not [*Path("/sys/fs/cgroup").glob(f"*/{NAME}"), *Path("/sys/fs/cgroup").glob(NAME)]
