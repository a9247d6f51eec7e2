"""An experiment as a user runs it, on this machine's kernel."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.study.catalogue import SCENARIOS
from tests.claims.papers import PAPERS
from tests.measured.experiments import EXPERIMENT, measured, run
from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually, process
from tributary.paths import ROOT
from tributary.settings.errors import Exit

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45)]

# Too short to hold the claims: so a machine that is not calm is no reason to wait, or to measure again.
BRIEF = ("--quick", "--most-stolen", "100%", "--tolerance", "50%")
FEW = (*BRIEF, "--set", "size=3MB", "--set", "warm_up=0.1")


def command(name: str, results: Path) -> list[str]:
    return [*EXPERIMENT, name, *FEW, "--json", "--results", str(results)]


def test_a_run_leaves_results_that_are_whole_and_nothing_else(tmp_path: Path) -> None:
    done = run(*command("multipath", tmp_path))
    assert done.returncode in (0, Exit.WRONG_RESULT), done.stderr
    (folder,) = (tmp_path / "experiment/multipath").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "plan.json",
        "plot.svg",
        "readings",
        "sending.csv",
        "series.csv",
        "testbeds.jsonl",
        "values.csv",
        "verdicts.json",
    ]
    assert json.loads(done.stdout) == {"multipath": json.loads((folder / "verdicts.json").read_text())}
    readings = [json.loads(path.read_text()) for path in (folder / "readings").iterdir()]
    assert len(readings) == 8
    for reading in readings:
        legacy = reading["point"]["by"] == "legacy"
        assert reading["values"]["subflows"] == (1 if legacy else 2)
        # What the senders knew: a window of some segments, and the round trip of each path.
        sending = reading.get("sending", {})
        assert set(sending) == (set() if legacy else {"wired", "wireless"})
        assert all(window > 0 and rtt > 5 for known in sending.values() for _, window, rtt, _ in known)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"][0] == "scripts/experiment"
    (line,) = (folder / "testbeds.jsonl").read_text().splitlines()
    programs = json.loads(line)["programs"]
    assert programs["profile"] == "released" and "tributary-converter" in programs["sha256"]
    assert {link["link"] for link in json.loads(line)["measured"]} == {"wired", "wireless"}


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    before, written = traces(), dict[Path, int]()
    for how in (signal.SIGINT, signal.SIGTERM):
        with process(*command("legacy", tmp_path), stderr=subprocess.DEVNULL) as running:
            first = eventually(lambda: sorted({*_readings(tmp_path)} - written.keys()), 60)
            running.send_signal(how)
            assert running.wait(60) == 128 + how
        eventually(lambda: nothing_new(before))
        written[first[0]] = first[0].stat().st_mtime_ns
    done = run(*command("legacy", tmp_path))
    assert done.returncode in (0, Exit.WRONG_RESULT), done.stderr
    (folder,) = (tmp_path / "experiment/legacy").iterdir()
    assert folder.suffix != ".partial"
    assert len(list((folder / "readings").glob("*.json"))) == 4
    assert {path: (folder / "readings" / path.name).stat().st_mtime_ns for path in written} == written


def _readings(results: Path) -> list[Path]:
    """Those of a run that is not whole."""
    return list(results.glob("experiment/legacy/*.partial/readings/*.json"))


# As little as still is a measurement: too little to hold every claim.
SMALL = {
    "throttle-midway": ("size=12MB",),
    "grid": ("seconds=1", "warm_up=0.2", "rtt=20ms", "loss=1%", "three=false"),
    "never-below": ("cases=1", "longest=1"),
    "never-below-loads": ("cases=2", "longest=1"),
    "failover": ("before=0.5", "down=1", "after=1"),
    "integrity": ("transfers=20", "rtt=0ms,1ms"),
    "latency": ("seconds=0.5", "settle=0.3"),
    "overlay-faults": ("before=1", "down=5", "after=5"),
    "handoff-backends": ("connections=2", "requests=4"),
    "handoff-faults": (),
}


def test_every_experiment_is_measured() -> None:
    """Here, whole where it holds a paper's claims, or as the benchmark that is the same."""
    assert {*PAPERS, *SMALL, "home"} == set(SCENARIOS)


@pytest.mark.parametrize("name", SMALL)
def test_each_measures_at_all_its_points_and_can_be_reported(name: str, tmp_path: Path) -> None:
    changes = [argument for change in SMALL[name] for argument in ("--set", change)]
    code, _, complaints = measured(name, tmp_path, *BRIEF[1:], *changes)
    assert code in (0, Exit.UNDECIDED, Exit.WRONG_RESULT), complaints
    report = [sys.executable, "-m", "experiments.study", "report", name, "--results", str(tmp_path)]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    assert (tmp_path / "experiment/report.html").exists()
