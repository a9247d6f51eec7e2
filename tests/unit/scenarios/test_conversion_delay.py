"""Verdicts on the time that packets stay in a converter."""

import pytest

from experiments.scenarios.conversion_delay import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed

KINDS = ("own_syn", "first_data", "data", "reply")


def good(point: Point) -> dict[str, float]:
    median = {"native": 90.0, "squid": 700.0}[point["by"]]
    shares = {"p50_us": median, "p95_us": 2 * median, "p99_us": 3 * median, "count": 500.0}
    return {f"{kind}_{share}": value for kind in KINDS for share, value in shares.items()}


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes) == 1


@pytest.mark.parametrize(
    ("by", "changed", "broken"),
    [
        ("squid", {"own_syn_p50_us": 5100.0}, "a SYN is converted in 5 ms, in the median (squid, ipv6)"),
        ("native", {"data_p50_us": 1100.0}, "a request is converted in 1 ms, in the median (native, ipv6)"),
        ("native", {"own_syn_p50_us": 800.0}, "the native converter takes no longer over a SYN than Squid (ipv6)"),
    ],
)
def test_a_slow_converter_is_seen(by: str, changed: dict[str, float], broken: str) -> None:
    assert failed(SCENARIO, but(good, {"by": by, "family": "ipv6"}, **changed)) == [broken]
