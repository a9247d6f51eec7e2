"""Verdicts on transfers through a converter off the path."""

from dataclasses import replace

from matplotlib.figure import Figure

from experiments.scenarios.acceleration import Model, Segments
from experiments.scenarios.acceleration_off_path import SCENARIO
from experiments.study.readings import Point, Readings
from experiments.testbed.chain import By
from experiments.testbed.topology import Link, Profile, Topology
from tests.unit.scenarios.made_up import but, drawn, failed, topology
from tests.unit.scenarios.made_up import readings as made_up
from tributary.settings.files import load
from tributary.settings.units import Duration

SIZES = [size.amount // 1000 for size in SCENARIO.options().size]


def link_of(point: Point) -> Link:
    """The way that it is measured on."""
    blueprint = SCENARIO.blueprint(SCENARIO.options(), load(SCENARIO.profile, Profile), point)
    assert isinstance(blueprint, Segments)
    half, _ = blueprint.links
    delay = Duration(2 * half.down.delay.amount)
    return replace(half, down=replace(half.down, delay=delay), up=replace(half.up, delay=delay))


def good(point: Point) -> dict[str, float]:
    """As the model has it."""
    model = Model(link_of(point), 1, By(point["by"]))
    firsts = {f"first_byte_ms_{size}": model.first_byte for size in SIZES}
    return firsts | {f"whole_ms_{size}": model.whole(1000 * size) for size in SIZES}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes) == 2


def test_detours_alone_can_be_drawn() -> None:
    def without_the_nearest(point: Point) -> bool:
        return point["side"] != "25ms" or point["by"] == By.DIRECT.value

    readings = made_up(SCENARIO, good)
    figure = Figure()
    kept = Readings(reading for reading in readings if without_the_nearest(reading.point))
    SCENARIO.drawn(figure, topology(SCENARIO), kept)
    assert len(figure.axes) == 2


def test_the_way_round_takes_as_long_as_its_sides() -> None:
    link = Topology.of(load(SCENARIO.profile, Profile)).links[0]
    points = SCENARIO.points(SCENARIO.options(), Topology((link,)))
    ways = {point["side"]: link_of(point) for point in points}
    assert ways["25ms"].rtt == link.rtt == 0.1
    assert max(way.rtt for way in ways.values()) == 0.15


def test_a_gain_where_there_should_be_a_loss_fails_its_claims() -> None:
    last = SCENARIO.points(SCENARIO.options(), Topology(()))[-1]["side"]
    claims = failed(SCENARIO, but(good, {"side": last, "by": By.EARLY.value}, first_byte_ms_10=190))
    assert [claim.partition(" ")[0] for claim in claims] == ["a", "and"]
