"""Verdicts on what waits in a receiver whose paths differ in delay."""

from experiments.scenarios.delays import Delays
from experiments.study.blueprint import TestbedBlueprint
from experiments.study.readings import Point
from experiments.testbed.topology import Profile
from tests.unit.scenarios.made_up import but, claims_test, differing, failed, topology
from tributary.settings.files import check, load
from tributary.settings.units import Duration


def good(point: Point) -> dict[str, float]:
    """What 40 Mbit/s bring in half of the difference, and a half more in memory."""
    difference = Duration.parse(point["difference"]).seconds
    return {"seconds": 6.0, "steady_mbps": 55.0, "waiting_kb": 5 + 1.5 * 40e6 / 8 * difference / 2 / 1000}


test_claims = claims_test(
    Delays,
    good,
    (
        but(good, {"difference": "0s"}, waiting_kb=250.0),
        "with delays that are alike no more than two bursts of the scheduler wait",
    ),
    (
        but(good, {"difference": "80ms"}, waiting_kb=60.0),
        "with a difference of 80ms what the shorter path brings meanwhile waits in the client",
    ),
    panels=2,
)


def test_a_burst_that_waits_differs_from_the_paper_and_fails_nothing() -> None:
    rule = but(good, {"difference": "0s"}, waiting_kb=100.0)
    assert failed(Delays, rule) == []
    assert differing(Delays, rule) == ["with delays that are alike hardly anything waits, beside that"]


def test_the_second_link_is_longer_by_the_difference_of_the_round_trips() -> None:
    profile = load(Delays.profile, Profile)
    for difference, each_way in (("0ms", "5ms"), ("80ms", "45ms")):
        ground = Delays().blueprint(profile, {"difference": difference})
        assert isinstance(ground, TestbedBlueprint)
        assert [str(link.delay) for link in ground.profile.links.values()] == ["5ms", each_way]


def test_one_difference_alone_judges_nothing_that_it_cannot() -> None:
    options = check({"difference": "0ms"}, Delays, "--set")
    assert len(options.points(topology(Delays))) == 1
