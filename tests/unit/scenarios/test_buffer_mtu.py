"""Verdicts on the buffer that is needed by packets of each size."""

import pytest

from experiments.scenarios.buffer_mtu import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import Rule, drawn, failed
from tributary.settings.units import Size


def needing(megabytes_at: dict[int, float]) -> Rule:
    """Half of the throughput below what is needed, all of it from there on."""

    def rule(point: Point) -> dict[str, float]:
        enough = Size.parse(point["buffer"]).amount / 1e6 >= megabytes_at[int(point["mtu"])]
        return {"seconds": 6.0, "steady_mbps": 60.0 if enough else 30.0}

    return rule


GOOD = {1500: 0.48, 1280: 0.48, 1000: 0.68, 576: 1.36}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, needing(GOOD)) == []
    assert len(drawn(SCENARIO, needing(GOOD)).axes) == 2


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({1000: 0.34}, "packets of 1000 bytes need no smaller buffer than those of 1500"),
        ({1280: 0.96}, "for packets of 1280 bytes a buffer in proportion to what they carry is enough"),
    ],
)
def test_readings_that_break_a_claim_fail_it_and_no_other(changed: dict[int, float], broken: str) -> None:
    assert failed(SCENARIO, needing(GOOD | changed)) == [broken]
