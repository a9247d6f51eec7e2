"""Verdicts on legacy TCP over each link."""

from dataclasses import replace

import pytest

from experiments.scenarios.legacy import Legacy
from experiments.study.readings import Point, Readings
from experiments.testbed.topology import Topology
from tests.unit.scenarios.made_up import but, claims_test, readings, topology


def good(point: Point) -> dict[str, float]:
    mbps = {"wired": 95.0, "wireless": 19.0}[point["link"]]
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps}


test_claims = claims_test(
    Legacy,
    good,
    (but(good, {"link": "wireless", "family": "ipv6"}, steady_mbps=17.9), "TCP over wireless fills it (ipv6)"),
    (but(good, {"link": "wired", "family": "ipv4"}, steady_mbps=89), "TCP over wired fills it (ipv4)"),
    panels=2,
)


def test_a_reading_at_every_point_is_needed() -> None:
    some = Readings(each for each in readings(Legacy, good) if each.point["family"] == "ipv4")
    with pytest.raises(KeyError):
        list(Legacy().judge(topology(Legacy), some))


def test_points_follow_the_links() -> None:
    links = topology(Legacy).links
    assert len(Legacy().points(Topology((*links, replace(links[0], name="third"))))) == 6
