"""The scenarios' verdicts on readings that are made up: each holds on good ones, and fails on those that break it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure

from experiments.study.catalogue import SCENARIOS
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Scenario
from experiments.testbed.topology import Profile, Topology
from settings.files import load

Rule = Callable[[Point], dict[str, float]]


def topology(scenario: Scenario[Any]) -> Topology:
    return Topology.of(load(scenario.profile, Profile))


def downloads(point: Point) -> dict[str, float]:
    """What 100 and 20 Mbit/s give: 95 and 19 alone, 112 together."""
    if point["by"] != "legacy":
        return {"seconds": 3.6, "mbps": 110, "steady_mbps": 112, "wired_bytes": 42e6, "wireless_bytes": 8e6}
    mbps = {"wired": 95.0, "wireless": 19.0}[point["link"]]
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps, f"{point['link']}_bytes": 50e6}


def readings(scenario: Scenario[Any], rule: Rule) -> Readings:
    series = {"wired": [(0.1, 90.0), (0.2, 95.0)]}
    points = scenario.points(scenario.options(), topology(scenario))
    return Readings(Reading(point, n, rule(point), series) for point in points for n in (1, 2, 3))


def failed(scenario: Scenario[Any], rule: Rule) -> list[str]:
    verdicts = scenario.judge(scenario.options(), topology(scenario), readings(scenario, rule))
    return [verdict.claim for verdict in verdicts if not verdict.holds]


def where(chosen: dict[str, str], **changed: float) -> Rule:
    """Good readings, but for ``changed`` at the points that have all that is ``chosen``."""
    return lambda point: downloads(point) | (changed if chosen.items() <= point.items() else {})


@pytest.mark.parametrize("name", SCENARIOS)
def test_good_readings_hold_every_claim_and_can_be_drawn(name: str) -> None:
    scenario = SCENARIOS[name]
    assert failed(scenario, downloads) == []
    figure = Figure()
    scenario.draw(figure, topology(scenario), readings(scenario, downloads))
    assert figure.axes


@pytest.mark.parametrize(
    ("name", "rule", "broken"),
    [
        (
            "legacy",
            where({"link": "wireless", "family": "ipv6"}, steady_mbps=17.9),
            ["TCP over wireless fills it (ipv6)"],
        ),
        ("legacy", where({"link": "wired", "family": "ipv4"}, steady_mbps=89), ["TCP over wired fills it (ipv4)"]),
        (
            "multipath",
            where({"by": "squid", "family": "ipv4"}, steady_mbps=100),
            ["they reach 90 % of the paths' sum (squid, ipv4)"],
        ),
        (
            "multipath",
            where({"by": "native", "family": "ipv6"}, steady_mbps=94),
            [
                "both paths together beat the best one (native, ipv6)",
                "they reach 90 % of the paths' sum (native, ipv6)",
            ],
        ),
        (
            "multipath",
            where({"by": "native", "family": "ipv4"}, wired_bytes=24e6, wireless_bytes=26e6),
            ["the better path carries most (native, ipv4)"],
        ),
    ],
)
def test_readings_that_break_a_claim_fail_it_and_no_other(name: str, rule: Rule, broken: list[str]) -> None:
    assert failed(SCENARIOS[name], rule) == broken


def test_a_reading_at_every_point_is_needed() -> None:
    scenario = SCENARIOS["legacy"]
    some = Readings(each for each in readings(scenario, downloads) if each.point["family"] == "ipv4")
    with pytest.raises(KeyError):
        scenario.judge(scenario.options(), topology(scenario), some)


def test_points_follow_the_links() -> None:
    scenario = SCENARIOS["legacy"]
    links = topology(scenario).links
    assert len(scenario.points(scenario.options(), Topology((*links, replace(links[0], name="third"))))) == 6
