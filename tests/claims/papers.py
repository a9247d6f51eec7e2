"""The papers' claims, each experiment in its quick form on this machine's kernel."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from experiments.study.catalogue import SCENARIOS
from tests.measured.experiments import measured
from tributary.settings.errors import Exit

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
MARKS = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45), pytest.mark.timeout(600)]

PAPERS = {name: scenario.paper for name, scenario in SCENARIOS.items() if scenario.paper != "new"}
OTHERS = {name for name, paper in PAPERS.items() if paper.startswith(("MOSTO", "Miniproxy", "Prism"))}
"""The rest are of the paper on conversion."""
_CALM = {name for name in PAPERS if name.startswith("acceleration")} | {"mtu"}
"""Whose claims are about milliseconds, or about a few per cent."""


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test gets these experiments one by one as ``name``."""
    marked = (pytest.param(name, marks=pytest.mark.calm) if name in _CALM else name for name in names)
    return pytest.mark.parametrize("name", list(marked))


def no_claim_fails(name: str, results: Path) -> None:
    """Each claim holds, or differs for a reason that the experiment names. One repetition decides by itself, so that
    none is undecided but of what is computed over several networks: that is no failure.
    """
    code, failing, complaints = measured(name, results, prepared=_above_all_else)
    assert failing == []
    assert code in (0, Exit.UNDECIDED), complaints


def _above_all_else() -> None:
    """Make this process a real-time one (sched(7)), where that is allowed: it is no matter who works beside it."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
