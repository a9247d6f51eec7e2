"""Verdicts on a session and a connection of legacy TCP that share a bottleneck."""

from pathlib import Path

import pytest

from experiments.scenarios import shared_bottleneck
from experiments.scenarios.shared_bottleneck import SharedBottleneck
from experiments.study.readings import Point
from experiments.testbed.build import Testbed
from tests.unit.scenarios.made_up import but, claims_test, differing, failed, topology
from tests.unit.test_demo import download
from tributary.settings.errors import CommandError, Exit

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


def test_a_warm_up_that_takes_it_all_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_bottleneck, "_allow", lambda *_: None)
    monkeypatch.setattr(shared_bottleneck, "fetched", lambda *_: download("any", 4.0, 40_000_000, 10_000_000))
    testbed = Testbed("none", topology(SharedBottleneck), tmp_path, netem=True)
    experiment = SharedBottleneck(seconds=4.0, warm_up=5.0)
    with pytest.raises(CommandError, match="a larger size, or a shorter warm_up") as failure:
        experiment.measure(testbed, experiment.points(testbed.topology)[0], 1)
    assert failure.value.code == Exit.USAGE
