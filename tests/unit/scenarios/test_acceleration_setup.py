"""Verdicts on how long connections take to stand."""

from experiments.scenarios.acceleration_setup import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed


def good(point: Point) -> dict[str, float]:
    """Flat beside others, in proportion to them at once, and half of both without a converter."""
    share = 1.0 if point["by"] == "converter" else 0.5
    return {"beside_ms": 0.4 * share, "at_once_ms": 0.06 * int(point["connections"]) * share}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes[0].containers) == 4


def test_a_connection_that_takes_long_beside_230_fails_its_claim() -> None:
    (claim,) = failed(SCENARIO, but(good, {"by": "converter", "connections": "230"}, beside_ms=3.5))
    assert claim == "a connection stands beside 230 others in time"


def test_one_that_takes_longer_beside_thousands_fails_its_claim() -> None:
    (claim,) = failed(SCENARIO, but(good, {"by": "converter", "connections": "5000"}, beside_ms=0.9))
    assert claim.startswith("beside 5000 it takes no more than twice")
