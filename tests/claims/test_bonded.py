"""The claims of the paper on converter and throttler: its experiments in their quick form, on this kernel."""

from pathlib import Path

import pytest

from tests.claims.papers import BONDED, check_claims

# Throughput in real time: a hypervisor may take the processors away for a minute, which spoils the measurement alone.
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=2, reruns_delay=45), pytest.mark.timeout(600)]


def test_there_are_experiments_of_papers() -> None:
    assert len(BONDED) > 8


@pytest.mark.parametrize("name", BONDED)
def test_no_claim_of_a_papers_experiment_fails(name: str, tmp_path: Path) -> None:
    check_claims(name, tmp_path)
