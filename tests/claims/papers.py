"""The papers' claims, each experiment in its quick form on this machine's kernel."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from experiments.study.catalogue import SCENARIOS
from tests.claims.figures import PLAUSIBLE
from tests.measured.experiments import above_all_else, figures, measured
from tributary.settings.errors import Exit

# A run that ends without verdicts, since a link was not as described or since Linux let a download of MPTCP stand still
# (docs/upstream/receiver-stands-still.md), is tried again as a whole.
_AGAIN = pytest.mark.flaky(reruns=2, reruns_delay=45, only_rerun=["is the machine busy", "TimeoutError: timed out"])
MARKS = [pytest.mark.slow, _AGAIN, pytest.mark.timeout(1200)]
_TRIES = 3
"""Throughput in real time: a hypervisor may take the processors away for a moment, which spoils some claim or other of
one run, but not the same one of each.
"""

_ALLOWED = ("--most-stolen", "10%")
"""By a hypervisor. A shared machine loses more than the usual 2 % much of the time, and would take most readings again;
a claim that is spoilt gets another run instead.
"""

PAPERS = {name: scenario.paper for name, scenario in SCENARIOS.items() if scenario.paper != "new"}
OTHERS = {name for name, paper in PAPERS.items() if paper.startswith(("MOSTO", "Miniproxy", "Prism"))}
"""The rest are of the paper on conversion."""
_CALM = {name for name in PAPERS if name.startswith("acceleration")} | {"delays", "mtu"}
"""Whose claims are about milliseconds, a few per cent, or bursts of the scheduler."""


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test gets these experiments one by one as ``name``."""
    marked = (pytest.param(name, marks=pytest.mark.calm) if name in _CALM else name for name in names)
    return pytest.mark.parametrize("name", list(marked))


def no_claim_fails(name: str, results: Path) -> None:
    """Each claim holds in one of a few runs, or differs for a reason that the experiment names. One repetition decides
    by itself, so that none is undecided but of what is computed over several networks: that is no failure. What it
    quotes beside them is plausible.
    """
    failed: list[dict[str, str]] = []
    for _ in range(_TRIES):
        code, failing, complaints = measured(name, results, *_ALLOWED, prepared=above_all_else)
        assert code in (0, Exit.WRONG_RESULT, Exit.UNDECIDED), complaints
        failed.append(failing | _implausible(name, results))
        always = [claim for claim in failed[0] if all(claim in each for each in failed)]
        if not always:
            return
    pytest.fail("\n".join(f"{claim}: {', '.join(each[claim] for each in failed)}" for claim in always))


def _implausible(name: str, results: Path) -> dict[str, str]:
    quoted = figures(name, results) if name in PLAUSIBLE else {}
    return {} if not quoted or PLAUSIBLE[name](quoted) else {"what it quotes is plausible": str(quoted)}
