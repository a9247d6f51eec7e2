"""Verdicts on small requests beside a bulk download."""

from collections.abc import Mapping

from experiments.scenarios.latency import Latency
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, drawn, judged

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


test_claims = claims_test(
    Latency,
    good,
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
    panels=4,
)


def test_what_a_kernel_without_fair_queues_could_not_measure_is_not_judged() -> None:
    verdicts = judged(Latency, without_fq_codel)
    assert all(verdict.holds for verdict in verdicts)
    assert len(verdicts) == len(judged(Latency, good)) - 4
    assert not [verdict for verdict in verdicts if verdict.claim.startswith("fair queues")]
    assert len(drawn(Latency, without_fq_codel).axes) == 4
