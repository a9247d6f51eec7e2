"""Verdicts on how long a converter takes to start."""

from experiments.scenarios.acceleration_start import AccelerationStart
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, drawn


def good(point: Point) -> dict[str, float]:
    """Slow with a small share of a processor alone."""
    return {"start_ms": 60.0 if point["processor"] == "5%" else 3.0}


def test_each_limit_has_its_place() -> None:
    assert [len(axes.get_xticks()) for axes in drawn(AccelerationStart, good).axes] == [4, 5]


test_claims = claims_test(
    AccelerationStart,
    good,
    (but(good, {"memory": "6MB"}, start_ms=13.0), "it takes a connection in time, with 6MB"),
    panels=2,
)
