"""Experiments run as a user runs them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.netns.traces import traces
from tributary.paths import ROOT

EXPERIMENT = (sys.executable, "-m", "experiments.study", "run")


def measured(
    name: str, results: Path, *how: str, prepared: Callable[[], None] | None = None
) -> tuple[int, dict[str, str], str]:
    """The exit code, what was measured of each claim that fails, and what went to standard error."""
    before = traces()
    run = [*EXPERIMENT, name, "--quick", *how, "--json", "--results", str(results)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=prepared)
    assert traces() == before
    assert done.stdout, done.stderr
    verdicts = json.loads(done.stdout)[name]
    assert verdicts, "a verdict at least"
    failing = {each["claim"]: each["measured"] for each in verdicts if each["decision"] == "fails"}
    return done.returncode, failing, done.stderr
