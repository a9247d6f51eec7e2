"""Verdicts on send buffers of several sizes."""

from experiments.scenarios.acceleration_buffer import AccelerationBuffer
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test


def good(point: Point) -> dict[str, float]:
    """All that the link carries from twice the receive buffer on, and in proportion below."""
    return {"rate_mbps": 90 * min(1.0, float(point["ratio"]) / 2)}


test_claims = claims_test(
    AccelerationBuffer,
    good,
    (but(good, {"ratio": "4"}, rate_mbps=95), "twice the receive buffer reaches 97 % of the most"),
    (but(good, {"ratio": "0.5"}, rate_mbps=89), "half of it does not reach 80 %"),
    panels=1,
)
