"""Verdicts on small requests beside a bulk download."""

from collections.abc import Mapping

import pytest

from experiments.scenarios.latency import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import Rule, but, drawn, failed, readings, topology

NATIVE = {"converter": "native", "request": "legacy"}
MEDIANS = {
    "idle": 21.5,
    "bulk": 39.0,
    "bulk-fair-queue": 22.5,
    "bulk-throttled": 21.3,
    "bulk-throttled-long-queue": 21.4,
}


def good(point: Point) -> Mapping[str, float]:
    """On idle links 20 ms and a little; with a filled queue 9 ms more, twice."""
    middle = MEDIANS[point["load"]]
    spread = {f"p{percent}_ms": middle + percent / 50 - 1 for percent in (5, 25, 50, 75, 95)}
    return {**spread, "max_ms": middle + 3, "count": 100, "bulk_mbps": 23, "held_rtt_ms": 22}


def without_fq_codel(point: Point) -> Mapping[str, float]:
    return {} if point["load"] == "bulk-fair-queue" else good(point)


@pytest.mark.parametrize("rule", [good, without_fq_codel])
def test_good_readings_hold_every_claim_and_can_be_drawn(rule: Rule) -> None:
    assert failed(SCENARIO, rule) == []
    assert len(drawn(SCENARIO, rule).axes) == 4


def test_what_a_kernel_without_fair_queues_could_not_measure_is_not_judged() -> None:
    verdicts = SCENARIO.judge(SCENARIO.options(), topology(SCENARIO), readings(SCENARIO, without_fq_codel))
    assert verdicts
    assert not [verdict for verdict in verdicts if verdict.claim.startswith("fair queues")]


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (but(good, {"load": "bulk", **NATIVE}, p50_ms=26), "a bulk download makes requests wait (native, legacy)"),
        (
            but(good, {"load": "bulk-fair-queue", "converter": "squid", "request": "legacy"}, p50_ms=27),
            "fair queues spare them that (squid, legacy)",
        ),
        (
            but(good, {"load": "bulk-throttled", **NATIVE}, p50_ms=27),
            "behind one that is held they do not wait (native, legacy)",
        ),
        (
            but(good, {"load": "bulk-throttled-long-queue", "converter": "squid", "request": "multipath"}, p50_ms=27),
            "nor do they with a long queue in the held class (squid, multipath)",
        ),
        (
            but(good, {"load": "bulk-throttled-long-queue", **NATIVE}, held_rtt_ms=65),
            "nor does the held subflow (native, legacy)",
        ),
    ],
)
def test_readings_that_break_a_claim_fail_it_and_no_other(rule: Rule, broken: str) -> None:
    assert failed(SCENARIO, rule) == [broken]
