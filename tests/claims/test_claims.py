"""The papers' claims, each experiment in its quick form on this machine's kernel."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from experiments.study.catalogue import SCENARIOS
from tests.measured.experiments import measured
from tributary.settings.errors import Exit

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45), pytest.mark.timeout(600)]

PAPERS = [name for name, scenario in SCENARIOS.items() if scenario.paper != "new"]
CALM = {name for name in PAPERS if name.startswith("acceleration")} | {"mtu"}
"""Whose claims are about milliseconds, or about a few per cent."""


def test_there_are_experiments_of_papers() -> None:
    assert len(PAPERS) > 15


def above_all_else() -> None:
    """Make this process a real-time one (sched(7)), where that is allowed: it is no matter who works beside it."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.calm) if name in CALM else name for name in PAPERS]
)
def test_no_claim_of_a_papers_experiment_fails(name: str, tmp_path: Path) -> None:
    """Each claim holds, or differs for a reason that the experiment names. One repetition decides by itself, so that
    none is undecided but of what is computed over several networks: that is no failure.
    """
    code, failing, complaints = measured(name, tmp_path, prepared=above_all_else)
    assert failing == []
    assert code in (0, Exit.UNDECIDED), complaints
