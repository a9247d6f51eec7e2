"""Verdicts on how long a converter takes to start."""

from experiments.scenarios.acceleration_start import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed


def good(point: Point) -> dict[str, float]:
    """Slow with a small share of a processor alone."""
    return {"start_ms": 60.0 if point["processor"] == "5%" else 3.0}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert [len(axes.get_xticks()) for axes in drawn(SCENARIO, good).axes] == [4, 5]


def test_a_start_that_needs_more_memory_fails_its_claim() -> None:
    (claim,) = failed(SCENARIO, but(good, {"memory": "6MB"}, start_ms=13.0))
    assert claim == "it takes a connection in time, with 6MB"
