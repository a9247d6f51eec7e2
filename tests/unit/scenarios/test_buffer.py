"""Verdicts on receive buffers of many sizes."""

import pytest

from experiments.scenarios.buffer import Buffer, needed
from experiments.study.changes import orders
from experiments.study.readings import Point
from experiments.testbed.topology import Topology
from tests.unit.scenarios.made_up import but, claims_test, readings, topology
from tributary.settings.units import Size


def good(point: Point) -> dict[str, float]:
    """60 Mbit/s from 0.48 MB on, and less in proportion below."""
    mbps = min(60.0, 60 * Size.parse(point["buffer"]).amount / 480_000)
    counts = {"segments_that_waited": 1e4, "segments_twice": 0.0, "segments_sent_again": 0.0}
    return {"seconds": 8.0, "mbps": mbps, "steady_mbps": mbps, **counts}


test_claims = claims_test(
    Buffer,
    good,
    (
        but(good, {"buffer": "180kB", "family": "ipv6", "by": "squid"}, steady_mbps=49),
        "0.18 MB cost a fifth or more of what 0.72 MB give (squid, ipv6)",
    ),
    (
        but(good, {"buffer": "720kB", "family": "ipv4", "by": "native"}, steady_mbps=56),
        "0.72 MB are enough: 95 % of the best size (native)",
    ),
    (
        but(good, {"buffer": "100kB", "by": "native"}, steady_mbps=59),
        "the knee is where theory has it, within a factor of 2 (native)",
    ),
    panels=4,
)


def test_sizes_that_were_not_asked_for_are_not_judged() -> None:
    options = Buffer.model_validate({"buffer": "0.72MB"})
    points = options.points(topology(Buffer))
    assert {point["buffer"] for point in points} == {"720kB"}
    verdicts = options.judge(topology(Buffer), readings(Buffer, good).at(buffer="720kB"))
    assert [verdict.claim for verdict in verdicts] == [
        "0.72 MB are enough: 95 % of the best size (squid)",
        "0.72 MB are enough: 95 % of the best size (native)",
    ]


def test_what_theory_needs_follows_the_links() -> None:
    """A longer link moves the theory with it: the knee is held against the links that were measured."""
    links = topology(Buffer)
    assert needed(links) == pytest.approx(480_000, rel=0.01)
    (longer,) = orders([Buffer()], ["wireless.delay=30ms"])
    assert needed(Topology.of(longer.profile)) == pytest.approx(2 * 64e6 * 0.075 / 8, rel=0.01)
