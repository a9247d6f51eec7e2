"""The same client once more, with the policy already installed: the rule stands before the session begins.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s from the session's beginning on
           ==wireless===                       6 Mbit/s

The rule asks for one subflow (min_subflows = 1) where that of `throttle-first` asks for two: so it takes hold of a
session's first subflow when that is established, and does not wait for a join.

Derived: when the hold came, before or after the join; each path's rate on the wire from the request on. Expected: the
path is held before the other one has joined, so that it never carries more than its rate, and the other one carries
most.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from experiments.scenarios.throttling import (
    HELD,
    INSTALLED,
    JOINED,
    ThrottleOptions,
    draw_moments,
    held_points,
    measure,
    verdicts_on_hold,
)
from experiments.study.readings import Point, Readings, Verdict, worst
from experiments.study.scenario import Scenario
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Topology


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    return held_points(INSTALLED, topology)


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    return [
        verdict
        for point in _points(options, topology)
        for verdict in _verdicts(options, topology, readings.at(**point), f"{point['by']}, {point['family']}")
    ]


def _verdicts(options: ThrottleOptions, topology: Topology, readings: Readings, who: str) -> Iterator[Verdict]:
    waited = readings.values("enforcement_ms")
    yield worst(f"the hold does not wait for the join ({who})", waited, 0, "ms after it")
    yield from verdicts_on_hold(options, topology, readings, who)


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    draw_moments(figure, topology, readings, "rule installed before", (JOINED, HELD))


SCENARIO = Scenario(
    name="throttle-again",
    paper="figure 6b",
    claim="With the policy already installed the same client's next download is throttled from its beginning.",
    expected="The path is held before the other one joins and keeps to its rate; the other one carries most.",
    profile=PROFILES / "slow.toml",
    options=ThrottleOptions,
    quick={"repeat": 1},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    least_links=2,
)
