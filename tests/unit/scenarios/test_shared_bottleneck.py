"""Verdicts on a session and a connection of legacy TCP that share a bottleneck."""

from experiments.scenarios.shared_bottleneck import SharedBottleneck
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, differing, failed

COUPLED = "a session of two subflows has no more than legacy TCP, as coupled congestion control would have it"


def good(point: Point) -> dict[str, float]:
    """A half with one subflow, two thirds with two."""
    share = {"1": 50.0, "2": 66.0}[point["subflows"]]
    return {"seconds": 20.0, "session_mbps": share / 5, "legacy_mbps": 20 - share / 5, "share_percent": share}


test_claims = claims_test(
    SharedBottleneck,
    good,
    (
        but(good, {"subflows": "1"}, share_percent=70.0),
        "a session of one subflow has as much as legacy TCP beside it",
    ),
    (but(good, {"subflows": "2"}, share_percent=95.0), "it has what two connections have beside one"),
    panels=2,
)


def test_a_kernel_that_couples_subflows_holds_the_papers_claim() -> None:
    assert differing(SharedBottleneck, good) == [COUPLED]
    coupled = but(good, {"subflows": "2"}, share_percent=52.0)
    assert (differing(SharedBottleneck, coupled), failed(SharedBottleneck, coupled)) == ([], [])
