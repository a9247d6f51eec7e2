"""A first download of 5 MB, which the throttler holds by itself once the second subflow has joined.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s from the other subflow's join on
           ==wireless===                       6 Mbit/s

Derived: how long it takes from the join (its third ACK as it arrives at the gateway) to the hold (the first packet with
the throttler's mark as it leaves), by the kernel's packet timestamps; each path's rate on the wire from then on.
Expected: a few milliseconds, since the kernel tells of the join and a class and a map's element are all that is
installed. The held path keeps to its rate and the other one carries most. With the paper's receive buffer of 0.72 MB,
some of which waits for the held path, it is not quite full.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from experiments.scenarios.throttling import (
    ALWAYS,
    HELD,
    JOINED,
    ThrottleOptions,
    draw_moments,
    held_points,
    measure,
    verdicts_on_hold,
)
from experiments.study.readings import Point, Readings, Verdict, at_most
from experiments.study.scenario import Scenario
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Topology

_SOON = 50.0  # ms from the join to the hold, on a machine that emulates the links as well


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    return held_points(ALWAYS, topology)


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    return [
        verdict
        for point in _points(options, topology)
        for verdict in _verdicts(options, topology, readings.at(**point), f"{point['by']}, {point['family']}")
    ]


def _verdicts(options: ThrottleOptions, topology: Topology, readings: Readings, who: str) -> Iterator[Verdict]:
    taken = readings.estimate("enforcement_ms")
    yield at_most(f"the hold comes by itself, soon after the join ({who})", taken, _SOON, "ms")
    yield from verdicts_on_hold(options, topology, readings, who)


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    draw_moments(figure, topology, readings, "held from the join on", (JOINED, HELD))


SCENARIO = Scenario(
    name="throttle-first",
    paper="figure 6a",
    claim="The first download is throttled by itself when the second subflow joins, after what that takes to complete.",
    expected="The hold comes milliseconds after the join; the held path keeps to its rate, the other one carries most.",
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
