"""Verdicts on a session and a connection of legacy TCP that share a bottleneck."""

import pytest

from experiments.scenarios.shared_bottleneck import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import Rule, but, differing, drawn, failed

COUPLED = "a session of two subflows has no more than legacy TCP, as coupled congestion control would have it"


def good(point: Point) -> dict[str, float]:
    """A half with one subflow, two thirds with two."""
    share = {"1": 50.0, "2": 66.0}[point["subflows"]]
    return {"seconds": 20.0, "session_mbps": share / 5, "legacy_mbps": 20 - share / 5, "share_percent": share}


def test_good_readings_hold_every_claim_but_that_of_coupled_subflows() -> None:
    assert failed(SCENARIO, good) == []
    assert differing(SCENARIO, good) == [COUPLED]
    assert len(drawn(SCENARIO, good).axes) == 2


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (
            but(good, {"subflows": "1"}, share_percent=70.0),
            "a session of one subflow has as much as legacy TCP beside it",
        ),
        (but(good, {"subflows": "2"}, share_percent=95.0), "it has what two connections have beside one"),
    ],
)
def test_readings_that_break_a_claim_fail_it_and_no_other(rule: Rule, broken: str) -> None:
    assert failed(SCENARIO, rule) == [broken]


def test_a_kernel_that_couples_subflows_holds_the_papers_claim() -> None:
    coupled = but(good, {"subflows": "2"}, share_percent=52.0)
    assert (differing(SCENARIO, coupled), failed(SCENARIO, coupled)) == ([], [])
