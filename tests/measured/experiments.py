"""Experiments run as a user runs them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.study.catalogue import EVERYTHING
from experiments.study.folder import Folder
from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually
from tributary.paths import ROOT

EXPERIMENT = (sys.executable, "-m", "experiments.study", "run")


def run(*command: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """A command that has ended, and left nothing."""
    before = traces()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **how)
    sys.stderr.write(done.stderr)  # which pytest shows if what follows fails
    eventually(lambda: nothing_new(before), 60)
    return done


def measured(
    name: str, results: Path, *how: str, prepared: Callable[[], None] | None = None
) -> tuple[int, dict[str, str], str]:
    """The exit code, what was measured of each claim that fails, and what went to standard error."""
    done = run(*EXPERIMENT, name, "--quick", *how, "--json", "--results", str(results), preexec_fn=prepared)
    assert done.stdout, done.stderr
    verdicts = json.loads(done.stdout)[name]
    assert verdicts, "a verdict at least"
    failing = {each["claim"]: each["measured"] for each in verdicts if each["decision"] == "fails"}
    return done.returncode, failing, done.stderr


def figures(name: str, results: Path) -> dict[str, float]:
    """What the newest whole run of an experiment quotes: medians and ratios by their names."""
    folder = Folder.newest(results / "experiment" / name)
    assert folder is not None, "a whole run"
    return {metric.name: metric.median for metric in EVERYTHING[name].quoted(folder.readings())}


def above_all_else() -> None:
    """Make this process a real-time one (sched(7)), where that is allowed: it is no matter who works beside it."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
