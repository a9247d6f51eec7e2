"""The demo of a home router as a user runs it."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measured.experiments import above_all_else
from tests.netns.traces import traces
from tests.netns.world import eventually, process
from tributary.paths import ROOT
from tributary.settings.errors import Exit

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.flaky(reruns=2, reruns_delay=45),
    pytest.mark.skipif(shutil.which("wg") is None, reason="missing: wireguard-tools"),
]

DEMO = (sys.executable, "-m", "experiments.home", "--name", "testhome", "--tolerance", "50%")
SOCKETS = Path("/var/run/wireguard")


def left() -> dict[str, list[str]]:
    return traces() | {"tunnels": sorted(path.name for path in SOCKETS.glob("*"))}


@pytest.mark.calm
def test_a_home_is_bonded_goes_on_and_is_shut_out_and_nothing_is_left(tmp_path: Path) -> None:
    before = left()
    done = subprocess.run(
        [*DEMO, "--json", "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        preexec_fn=above_all_else,
    )
    assert done.returncode in (0, Exit.WRONG_RESULT), done.stdout + done.stderr
    eventually(lambda: left() == before)
    told = json.loads(done.stdout)  # nothing else is on standard output
    failing = [each for each in told["claims"] if each["decision"] == "fails"]
    assert [each for each in failing if "Mbit/s" not in each["bound"]] == [], done.stdout + done.stderr
    (folder,) = (tmp_path / "demo-home").iterdir()
    assert json.loads((folder / "summary.json").read_text()) == told
    assert json.loads((folder / "manifest.json").read_text())["leg"] == "wireguard"
    # How fast exactly, a busy machine cannot tell; that it is more than by one link it can.
    rates = (*told["bonded_mbps"].values(), told["stripped_mbps"])
    assert len(rates) == 5 and min(rates) > max(told["alone_mbps"].values())
    assert told["cut"]["addresses"] == ["192.0.2.2"]
    assert told["knocked"] == []
    assert told["revoked_s"] < 5


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    before = left()
    with process(*DEMO, "--results", str(tmp_path), stderr=subprocess.DEVNULL) as demo:
        log = Path("/run/tributary-testbed-testhome/router.log")
        eventually(lambda: demo.poll() is not None or (log.exists() and "ready" in log.read_text()), 120)
        assert demo.poll() is None
        demo.send_signal(how)
        assert demo.wait(60) == 128 + how
    assert left() == before
