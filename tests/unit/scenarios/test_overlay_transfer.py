"""Verdicts on transfers from California to Ireland."""

import pytest

from experiments.scenarios.overlay_transfer import CDN, DIRECT, ONE, SCENARIO, THREE
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, differing, drawn, failed

SIZES = [size.amount // 1000 for size in SCENARIO.options().size]
TAKES = {DIRECT: 400.0, ONE: 230.0, THREE: 200.0, CDN: 200.0}


def good(point: Point) -> dict[str, float]:
    return {f"{what}_ms_{size}": TAKES[point["by"]] for what in ("first_byte", "whole") for size in SIZES}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes) == 1


@pytest.mark.parametrize(
    ("by", "takes", "broken"),
    [
        (DIRECT, 310.0, "50 kB come 60 % faster by three converters than directly"),
        (ONE, 280.0, "50 kB by one converter: within 35 % of a warm CDN"),
        (THREE, 215.0, "50 kB by three converters: as by a warm CDN, or faster"),
    ],
)
def test_what_does_not_hold_is_seen(by: str, takes: float, broken: str) -> None:
    rule = but(good, {"by": by}, whole_ms_50=takes)
    assert [*failed(SCENARIO, rule), *differing(SCENARIO, rule)] == [broken]
