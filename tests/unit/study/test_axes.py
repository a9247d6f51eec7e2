"""Axes that any experiment can be swept over."""

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from experiments.study.blueprint import TestbedBlueprint
from experiments.study.catalogue import SCENARIOS
from experiments.study.changes import orders
from experiments.study.order import Order
from experiments.study.readings import Point, Reading, Readings
from tests.refusals import command_error
from tests.unit.scenarios.made_up import SERIES
from tributary.settings.errors import CommandError, Exit


def order(*sweeps: str, name: str = "legacy") -> Order:
    (made,) = orders([SCENARIOS[name]], (), sweeps=sweeps)
    return made


def test_two_axes_are_measured_at_all_combinations() -> None:
    points = order("mtu=1500,1000", "congestion=cubic,reno").points
    assert len(points) == 4 * len(order().points)
    assert {(point["mtu"], point["congestion"]) for point in points} == {
        (mtu, congestion) for mtu in ("1500", "1000") for congestion in ("cubic", "reno")
    }


def test_each_axis_changes_what_it_says() -> None:
    keys = ("congestion=reno", "scheduler=default", "subflows=1", "receive-buffer=0.5MB", "send-buffer=1MB", "mtu=1000")
    made = order(*keys, "wired.delay=40ms", "net.ipv4.tcp_ecn=1")
    blueprint = made.blueprint(made.points[0])
    assert isinstance(blueprint, TestbedBlueprint)
    assert (blueprint.subflows, blueprint.mtu) == (1, 1000)
    assert blueprint.everywhere == {
        "net.ipv4.tcp_congestion_control": "reno",
        "net.mptcp.scheduler": "default",
        "net.ipv4.tcp_rmem": "4096 131072 500000",
        "net.ipv4.tcp_wmem": "4096 131072 1000000",
        "net.ipv4.tcp_ecn": "1",
    }
    assert str(blueprint.profile.links["wired"].delay) == "40ms"
    assert blueprint.as_json()["mtu"] == 1000


def test_a_swept_number_is_noted_also_where_it_is_0() -> None:
    made = order("subflows=0")
    noted = made.blueprint(made.points[0]).as_json()
    assert noted["subflows"] == 0
    assert not {"mtu", "steered", "everywhere", "without_endpoint"} & noted.keys()


@pytest.mark.parametrize(
    ("sweep", "complaint"),
    [
        ("mtu", "accepted: KEY=VALUE,VALUE"),
        ("mtu=1500,", "accepted: KEY=VALUE,VALUE"),
        ("mtu=9", "mtu = '9': accepted: bytes, 576 to 9000"),
        ("subflows=9", "accepted: further subflows"),
        ("receive-buffer=large", "accepted: a size"),
        ("colour=blue", "accepted: congestion, scheduler, subflows"),
        ("dsl.rate=1mbit", "one of the links wired, wireless"),
        ("wired.rate=fast", "accepted: a rate"),
    ],
)
def test_a_wrong_axis_is_refused_by_name(sweep: str, complaint: str) -> None:
    with command_error(Exit.USAGE, complaint):
        order(sweep)


@pytest.mark.parametrize(
    ("name", "sweep", "complaint"),
    [
        ("mtu", "mtu=1500,1000", "accepted: --set mtu=..., which mtu sweeps itself"),
        ("buffer", "receive-buffer=1MB", "accepted: --set buffer=..., which buffer sweeps itself"),
        ("throttle-long", "net.ipv4.tcp_rmem=4096 4096 4096", "accepted: --set buffer=..., which throttle-long"),
        ("acceleration", "mtu=1500", "accepted: for experiments on a testbed alone"),
    ],
)
def test_an_axis_that_an_experiment_does_not_have_is_refused(name: str, sweep: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        order(sweep, name=name)


def test_a_key_that_is_given_twice_is_refused() -> None:
    with pytest.raises(CommandError, match="each key once"):
        order("mtu=1500", "mtu=1000")


def full(point: Point) -> dict[str, float]:
    mbps = 46.0 if point["link"] == "wired" else 19.0
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps}


def made_up(order: Order) -> Readings:
    return Readings(Reading(point, n, full(point), SERIES) for point in order.points for n in (1, 2, 3))


def test_claims_are_judged_at_each_value_by_the_links_of_that_value() -> None:
    made = order("wired.rate=50mbit,10mbit")
    readings = made_up(made)
    verdicts = made.judged(readings)
    assert {verdict.bound for verdict in verdicts if "over wired" in verdict.claim} == {
        "at least 45.0 Mbit/s",
        "at least 9.0 Mbit/s",
    }
    assert all(verdict.holds for verdict in verdicts)
    slow = Readings(replace(each, values={**each.values, "steady_mbps": 1.0}) for each in readings)
    assert not any(verdict.holds for verdict in made.judged(slow))


def test_all_combinations_are_drawn() -> None:
    made = order("mtu=1500,1000")
    figure = Figure()
    made.drawn(figure, made_up(made))
    assert len(figure.subfigs) == 2


def test_a_plan_names_the_axes() -> None:
    assert order("mtu=1500,1000").plan()["axes"] == {"mtu": ["1500", "1000"]}
    assert "axes" not in order().plan()
