"""The claims of the papers on chains, overlays and hand-offs: their experiments in quick form, on this kernel."""

from pathlib import Path

import pytest

from tests.claims.papers import CHAINED, check_claims

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45), pytest.mark.timeout(600)]


def test_there_are_experiments_of_papers() -> None:
    assert len(CHAINED) > 8


@pytest.mark.parametrize("name", CHAINED)
def test_no_claim_of_a_papers_experiment_fails(name: str, tmp_path: Path) -> None:
    check_claims(name, tmp_path)
