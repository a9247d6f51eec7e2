"""The demo as a user runs it: the main job, end to end, on this machine's kernel."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.measured.experiments import above_all_else, run
from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually, process
from tributary.paths import ROOT

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45)]

DEMO = (sys.executable, "-m", "experiments.demo")
ROUGHLY = ("--tolerance", "50%")
"""For what depends on no rate: a busy machine's links need not wait until they are as described."""
WAYS = ("legacy_wired", "legacy_wireless", "mptcp", "mptcp_native", "mptcp_throttled")


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*DEMO, "--json", "--name", "testdemo", "--results", str(folder), *arguments]
    return run(*command, preexec_fn=above_all_else)


def check_measured(summary: dict[str, Any]) -> None:
    """What no busy machine may spoil."""
    for way in WAYS:
        assert summary[way]["sha256_ok"], way
    assert {subflow["path"] for subflow in summary["mptcp"]["subflows"] if subflow["bytes"]} == {"wired", "wireless"}
    assert 0 < summary["enforcement_ms"] < 1000


@pytest.mark.calm
@pytest.mark.parametrize("arguments", [[], ["--ipv6"]], ids=["ipv4", "ipv6"])
def test_the_demo_converts_aggregates_and_throttles_and_leaves_nothing(tmp_path: Path, arguments: list[str]) -> None:
    """Every claim holds, at the demo's own size; its results are whole and agree with each other."""
    done = demo(tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    check_measured(json.loads(done.stdout))  # nothing else is on standard output
    folder = next((tmp_path / "demo").iterdir())
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "summary.json",
        "throughput.csv",
        "throughput.png",
    ]
    assert json.loads((folder / "summary.json").read_text()) == json.loads(done.stdout)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"][0] == "scripts/demo"
    assert {"machine", "versions", "topology", "links", "seeds", "congestion_control"} <= set(manifest)
    assert (folder / "throughput.png").read_bytes().startswith(b"\x89PNG")
    rows = [line.split(",") for line in (folder / "throughput.csv").read_text().splitlines()]
    assert rows[0] == ["download", "seconds", "path", "bytes", "mbps"]
    assert {row[0] for row in rows[1:]} == set(WAYS)


def interrupted(folder: Path, how: signal.Signals) -> int:
    """Start the demo, wait until it downloads through the gateway, send it a signal; returns its exit code."""
    command = [*DEMO, *ROUGHLY, "--name", "testdemo", "--results", str(folder)]
    with process(*command, stderr=subprocess.DEVNULL) as running:
        eventually(lambda: running.poll() is not None or list(folder.glob("demo/*/manifest.json")), 120)
        assert running.poll() is None
        running.send_signal(how)
        return running.wait(60)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_cleans_up_and_marks_its_results_as_partial(tmp_path: Path, how: signal.Signals) -> None:
    before = traces()
    assert interrupted(tmp_path, how) == 128 + how
    eventually(lambda: nothing_new(before))
    assert [path.suffix for path in (tmp_path / "demo").iterdir()] == [".partial"]


def test_after_kill_9_testbed_down_removes_everything(tmp_path: Path) -> None:
    before = traces()
    assert interrupted(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    assert traces() != before
    subprocess.run([sys.executable, "-m", "experiments.testbed", "down"], cwd=ROOT, check=True)
    eventually(lambda: nothing_new(before))


def test_a_demo_on_other_links_than_its_own_is_refused(tmp_path: Path) -> None:
    profile = tmp_path / "dsl.toml"
    profile.write_text('[links.dsl]\nrate = "10mbit"\n')
    done = demo(tmp_path, "--profile", str(profile))
    assert done.returncode == 64
    assert "accepted: the two that the demo is about: wired, wireless" in done.stderr
