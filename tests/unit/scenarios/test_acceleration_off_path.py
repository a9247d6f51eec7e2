"""Verdicts on transfers through a converter off the path."""

import pytest
from matplotlib.figure import Figure

from experiments.scenarios.acceleration import Model
from experiments.scenarios.acceleration_off_path import AccelerationOffPath, detour
from experiments.study.readings import Point, Readings
from experiments.testbed.chain import By
from experiments.testbed.topology import Link, Profile, Topology
from tests.unit.scenarios.made_up import but, claims_test, topology
from tests.unit.scenarios.made_up import readings as made_up
from tributary.settings.files import load
from tributary.settings.units import Duration

SIZES = [size.amount // 1000 for size in AccelerationOffPath().size]


def link_of(point: Point) -> Link:
    """The way that it is measured on."""
    return detour(topology(AccelerationOffPath).links[0], Duration.parse(point["side"]))


def good(point: Point) -> dict[str, float]:
    """As the model has it."""
    model = Model(link_of(point), 1, By(point["by"]))
    firsts = {f"first_byte_ms_{size}": model.first_byte for size in SIZES}
    return firsts | {f"whole_ms_{size}": model.whole(1000 * size) for size in SIZES}


LAST = AccelerationOffPath().points(Topology(()))[-1]["side"]
test_claims = claims_test(
    AccelerationOffPath,
    good,
    (
        but(good, {"side": LAST, "by": By.EARLY.value}, first_byte_ms_10=190),
        f"a detour gains and loses where the model has it ({By.EARLY.value})",
        f"and later by one {LAST} from either end",
    ),
    panels=2,
)


def test_detours_alone_can_be_drawn() -> None:
    def without_the_nearest(point: Point) -> bool:
        return point["side"] != "25ms" or point["by"] == By.DIRECT.value

    readings = made_up(AccelerationOffPath, good)
    figure = Figure()
    kept = Readings(reading for reading in readings if without_the_nearest(reading.point))
    AccelerationOffPath().draw(figure, topology(AccelerationOffPath), kept)
    assert len(figure.axes) == 2


def test_the_way_round_takes_as_long_as_its_sides() -> None:
    link = Topology.of(load(AccelerationOffPath.profile, Profile)).links[0]
    points = AccelerationOffPath().points(Topology((link,)))
    ways = {point["side"]: link_of(point) for point in points}
    assert ways["25ms"].rtt == link.rtt == 0.1
    assert max(way.rtt for way in ways.values()) == 0.15
    for point in points:
        ground = AccelerationOffPath().blueprint(load(AccelerationOffPath.profile, Profile), point)
        assert ground.as_json() == {"proxies": 1, "round_trip_ms": pytest.approx(1000 * ways[point["side"]].rtt)}
