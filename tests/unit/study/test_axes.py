"""Axes that any experiment can be swept over."""

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from experiments.study.blueprint import TestbedBlueprint
from experiments.study.catalogue import SCENARIOS
from experiments.study.changes import orders
from experiments.study.experiment import Experiment
from experiments.study.order import Order
from experiments.study.readings import Point, Reading, Readings
from tests.refusals import command_error
from tests.unit.scenarios.made_up import SERIES
from tributary.settings.errors import CommandError, Exit


def order(*sweeps: str, name: str = "legacy") -> Order:
    (made,) = orders([SCENARIOS[name]], (), sweeps=sweeps)
    return made


def test_two_axes_are_measured_at_all_combinations() -> None:
    points = order("mtu=1500,1280", "congestion=cubic,reno").points
    assert len(points) == 4 * len(order().points)
    assert {(point["mtu"], point["congestion"]) for point in points} == {
        (mtu, congestion) for mtu in ("1500", "1280") for congestion in ("cubic", "reno")
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
        ("send-buffer=0MB", "accepted: a size such as '0.5MB', at least '4096B'"),
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
        ("delays", "wireless.delay=20ms", "accepted: --set difference=..., which delays sweeps itself"),
        ("never-below", "net.ipv4.tcp_notsent_lowat=16384", "accepted: --set settings=..., which never-below sweeps"),
        ("never-below", "wired.delay=20ms", "one of the links first, second"),
        ("acceleration", "mtu=1500", "accepted: for experiments on a testbed alone"),
    ],
)
def test_an_axis_that_an_experiment_does_not_have_is_refused(name: str, sweep: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        order(sweep, name=name)


@pytest.mark.parametrize("name", ["legacy", "multipath", "throttle-first", "throttle-long", "conversion-delay"])
def test_packets_too_small_for_ipv6_are_measured_and_judged_over_ipv4_alone(name: str) -> None:
    """Linux takes IPv6 off an interface with an MTU below 1280 bytes (RFC 8200 section 5)."""
    made = order("mtu=1280,1000", name=name)
    families = {mtu: {point["family"] for point in made.points if point["mtu"] == mtu} for mtu in ("1280", "1000")}
    assert families == {"1280": {"ipv4", "ipv6"}, "1000": {"ipv4"}}
    assert [each.topology.families for each in made.combinations] == [("ipv4", "ipv6"), ("ipv4",)]


def test_an_experiment_over_ipv6_alone_is_refused_packets_too_small_for_it() -> None:
    class OverIPv6(Experiment):
        claim = "Who measures over IPv6 needs 1280 bytes."
        at = ({"family": "ipv6"},)

        def measure(self, _built: object, point: Point, repetition: int) -> Reading:
            return Reading(point, repetition, {})

    with command_error(Exit.USAGE, "mtu = '1000': accepted: 1280 to 9000"):
        orders([OverIPv6()], (), sweeps=["mtu=1280,1000"])


def swept(name: str, sweep: str, **circumstances: str) -> TestbedBlueprint:
    made = order(sweep, name=name)
    (point, *_) = (each for each in made.points if circumstances.items() <= each.items())
    blueprint = made.blueprint(point)
    assert isinstance(blueprint, TestbedBlueprint)
    return blueprint


def test_what_an_experiment_makes_of_links_it_makes_of_them_as_they_are_swept() -> None:
    delays = swept("delays", "wired.delay=5ms,20ms", **{"difference": "80ms", "wired.delay": "20ms"}).profile.links
    assert [str(link.delay) for link in delays.values()] == ["20ms", "60ms"]
    small = swept("buffer-mtu", "wired.queue=100", mtu="1000").profile.links
    assert small["wired"].queue == 150
    assert swept("buffer-mtu", "wired.queue=100", mtu="1500").profile.links["wired"].queue == 100


@pytest.mark.parametrize("name", ["buffer", "buffer-mtu", "mtu"])
def test_the_low_mark_can_be_swept_where_an_experiment_has_none_by_itself(name: str) -> None:
    key = "net.ipv4.tcp_notsent_lowat"
    assert swept(name, "congestion=reno").sysctls == {key: "4294967295"}
    assert swept(name, f"{key}=16384").everywhere[key] == "16384"  # set last


def test_a_value_that_is_given_twice_is_measured_once() -> None:
    assert [point["mtu"] for point in order("mtu=1500,1280,1500", name="delays").points[::5]] == ["1500", "1280"]


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
