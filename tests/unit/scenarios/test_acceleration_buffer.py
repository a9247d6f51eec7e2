"""Verdicts on send buffers of several sizes."""

from experiments.scenarios.acceleration_buffer import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed


def good(point: Point) -> dict[str, float]:
    """All that the link carries from twice the receive buffer on, and in proportion below."""
    return {"rate_mbps": 90 * min(1.0, float(point["ratio"]) / 2)}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes) == 1


def test_a_larger_buffer_that_helps_fails_its_claim() -> None:
    (claim,) = failed(SCENARIO, but(good, {"ratio": "4"}, rate_mbps=95))
    assert claim.startswith("twice the receive buffer")


def test_a_smaller_one_that_does_not_hurt_fails_its_claim() -> None:
    (claim,) = failed(SCENARIO, but(good, {"ratio": "0.5"}, rate_mbps=89))
    assert claim.startswith("half of it")
