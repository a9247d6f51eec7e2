"""Verdicts on short transfers through a chain of converters, and the model that they are held against."""

import pytest

from experiments.scenarios.acceleration import Acceleration, Model
from experiments.study.readings import Point
from experiments.testbed.chain import By, split
from tests.unit.scenarios.made_up import but, claims_test, topology

LINK = topology(Acceleration).links[0]
SIZES = [size.amount // 1000 for size in Acceleration().size]


def good(point: Point) -> dict[str, float]:
    """As the model has it, with a little time of the converters' own."""
    by = By(point["by"])
    model, own = Model(LINK, int(point["proxies"]), by), 0.0 if by is By.DIRECT else 0.2
    firsts = {f"first_byte_ms_{size}": model.first_byte + own for size in SIZES}
    return firsts | {f"whole_ms_{size}": model.whole(1000 * size) + own for size in SIZES}


test_claims = claims_test(
    Acceleration,
    good,
    (
        but(good, {"proxies": "1", "by": By.EARLY.value}, first_byte_ms_10=152),
        "the first byte comes 25 % sooner through 1 proxy, but for their own time",
    ),
    (
        but(good, {"proxies": "1", "by": By.ZERO_RTT.value}, first_byte_ms_10=151),
        "0-RTT Convert brings it sooner than 25 %, through 1 proxy",
    ),
    (but(good, {"proxies": "3", "by": By.EARLY.value}, whole_ms_25=160), "25 kB come 49 % sooner through 3 proxies"),
    (
        but(good, {"proxies": "2", "by": By.LATE.value}, whole_ms_500=500),
        f"no size takes over a round of slow start longer than by the model (2 proxies, {By.LATE.value})",
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
