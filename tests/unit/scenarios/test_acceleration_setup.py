"""Verdicts on how long connections take to stand."""

from experiments.scenarios.acceleration_setup import AccelerationSetup
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, drawn


def good(point: Point) -> dict[str, float]:
    """Flat beside others, in proportion to them at once, and half of both without a converter."""
    share = 1.0 if point["by"] == "converter" else 0.5
    return {"beside_ms": 0.4 * share, "at_once_ms": 0.06 * int(point["connections"]) * share}


def test_each_way_has_its_line() -> None:
    assert len(drawn(AccelerationSetup, good).axes[0].containers) == 4


test_claims = claims_test(
    AccelerationSetup,
    good,
    (
        but(good, {"by": "converter", "connections": "230"}, beside_ms=3.5),
        "a connection stands beside 230 others in time",
    ),
    (
        but(good, {"by": "converter", "connections": "5000"}, beside_ms=0.9),
        "beside 5000 it takes no more than twice the time that it takes beside 30",
    ),
    panels=1,
)
