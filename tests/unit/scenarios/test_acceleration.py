"""Verdicts on converters on and off a long path: transfers, the model they are held against; buffers, starts."""

import pytest
from matplotlib.figure import Figure

from experiments.scenarios.acceleration import Acceleration, Model
from experiments.scenarios.acceleration_buffer import AccelerationBuffer
from experiments.scenarios.acceleration_off_path import AccelerationOffPath, detour
from experiments.scenarios.acceleration_setup import AccelerationSetup
from experiments.scenarios.acceleration_start import AccelerationStart
from experiments.study.readings import Point, Readings
from experiments.testbed.chain import By, split
from experiments.testbed.topology import Link, Topology
from tests.unit.scenarios.made_up import at, claims_test, drawn, profile, readings, topology
from tributary.settings.units import Duration

LINK = topology(Acceleration).links[0]


def by_the_model(model: Model, own: float = 0.0) -> dict[str, float]:
    """With a little time of the converters' ``own``."""
    sizes = [size.amount // 1000 for size in Acceleration().size]
    firsts = {f"first_byte_ms_{size}": model.first_byte + own for size in sizes}
    return firsts | {f"whole_ms_{size}": model.whole(1000 * size) + own for size in sizes}


def on_the_path(point: Point) -> dict[str, float]:
    by = By(point["by"])
    return by_the_model(Model(LINK, int(point["proxies"]), by), 0.0 if by is By.DIRECT else 0.2)


test_claims_on_the_path = claims_test(
    Acceleration,
    on_the_path,
    at(
        "proxies=1,by=early SYN",
        "the first byte comes 25 % sooner through 1 proxy, but for their own time",
        first_byte_ms_10=152,
    ),
    at("proxies=1,by=0-RTT Convert", "0-RTT Convert brings it sooner than 25 %, through 1 proxy", first_byte_ms_10=151),
    at("proxies=3,by=early SYN", "25 kB come 49 % sooner through 3 proxies", whole_ms_25=160),
    at(
        "proxies=2,by=handshake first",
        "no size takes over a round of slow start longer than by the model (2 proxies, handshake first)",
        whole_ms_500=500,
    ),
    panels=2,
)


@pytest.mark.parametrize(
    ("proxies", "by", "first_byte", "whole"),
    [
        (1, By.DIRECT, 200, 300),
        (3, By.DIRECT, 200, 300),
        (1, By.EARLY, 150, 200),
        (2, By.EARLY, 133.3, 166.7),
        (3, By.EARLY, 125, 150),
        (1, By.LATE, 200, 250),
        (1, By.ZERO_RTT, 100, 150),
        (3, By.ZERO_RTT, 100, 125),
    ],
)
def test_the_model_counts_round_trips(proxies: int, by: By, first_byte: float, whole: float) -> None:
    model = Model(LINK, proxies, by)
    assert model.first_byte == pytest.approx(first_byte, abs=0.1)
    # 25 kB are two rounds of slow start, and two milliseconds of sending.
    assert model.whole(25_000) == pytest.approx(whole + 2, abs=0.1)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_the_segments_of_a_path_have_its_delay_in_all(parts: int) -> None:
    segments = split(LINK, parts)
    assert sum(segment.rtt for segment in segments) == pytest.approx(LINK.rtt, abs=1e-5)
    assert [segment.number for segment in segments] == list(range(1, parts + 1))
    assert {segment.down.rate for segment in segments} == {LINK.down.rate}


def way_of(point: Point) -> Link:
    """What it is measured on."""
    return detour(LINK, Duration.parse(point["side"]))


def off_the_path(point: Point) -> dict[str, float]:
    return by_the_model(Model(way_of(point), 1, By(point["by"])))


LAST = AccelerationOffPath().points(Topology(()))[-1]["side"]
test_claims_off_the_path = claims_test(
    AccelerationOffPath,
    off_the_path,
    at(
        f"side={LAST},by=early SYN",
        "a detour gains and loses where the model has it (early SYN)",
        f"and later by one {LAST} from either end",
        first_byte_ms_10=190,
    ),
    panels=2,
)


def test_detours_alone_can_be_drawn() -> None:
    def without_the_nearest(point: Point) -> bool:
        return point["side"] != "25ms" or point["by"] == By.DIRECT.value

    figure = Figure()
    made_up = readings(AccelerationOffPath, off_the_path)
    kept = Readings(reading for reading in made_up if without_the_nearest(reading.point))
    AccelerationOffPath().draw(figure, topology(AccelerationOffPath), kept)
    assert len(figure.axes) == 2


def test_the_way_round_takes_as_long_as_its_sides() -> None:
    points = AccelerationOffPath().points(Topology((LINK,)))
    ways = {point["side"]: way_of(point) for point in points}
    assert ways["25ms"].rtt == LINK.rtt == 0.1
    assert max(way.rtt for way in ways.values()) == 0.15
    for point in points:
        ground = AccelerationOffPath().blueprint(profile(AccelerationOffPath), point)
        assert ground.as_json() == {"proxies": 1, "round_trip_ms": pytest.approx(1000 * ways[point["side"]].rtt)}


def in_proportion(point: Point) -> dict[str, float]:
    """All that the link carries from twice the receive buffer on, and in proportion below."""
    return {"rate_mbps": 90 * min(1.0, float(point["ratio"]) / 2)}


test_claims_on_buffers = claims_test(
    AccelerationBuffer,
    in_proportion,
    at("ratio=4", "twice the receive buffer reaches 97 % of the most", rate_mbps=95),
    at("ratio=0.5", "half of it does not reach 80 %", rate_mbps=89),
    panels=1,
)


def setup(point: Point) -> dict[str, float]:
    """Flat beside others, in proportion to them at once, and half of both without a converter."""
    share = 1.0 if point["by"] == "converter" else 0.5
    return {"beside_ms": 0.4 * share, "at_once_ms": 0.06 * int(point["connections"]) * share}


test_claims_on_setup = claims_test(
    AccelerationSetup,
    setup,
    at("by=converter,connections=230", "a connection stands beside 230 others in time", beside_ms=3.5),
    at(
        "by=converter,connections=5000",
        "beside 5000 it takes no more than twice the time that it takes beside 30",
        beside_ms=0.9,
    ),
    panels=1,
)


def test_each_way_of_a_connection_has_its_line() -> None:
    assert len(drawn(AccelerationSetup, setup).axes[0].containers) == 4


def start(point: Point) -> dict[str, float]:
    """Slow with a small share of a processor alone."""
    return {"start_ms": 60.0 if point["processor"] == "5%" else 3.0}


test_claims_on_starts = claims_test(
    AccelerationStart, start, at("memory=6MB", "it takes a connection in time, with 6MB", start_ms=13.0), panels=2
)


def test_each_limit_of_a_start_has_its_place() -> None:
    assert [len(axes.get_xticks()) for axes in drawn(AccelerationStart, start).axes] == [4, 5]
