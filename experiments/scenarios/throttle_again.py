"""The same download once more, with the throttle in place.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s from the other subflow's join on
           ==wireless===                       6 Mbit/s

Derived: each path's rate on the wire from then on. Expected: the held path keeps to its rate and the other one
carries most. With the paper's receive buffer of 0.72 MB, some of which waits for the held path, it is not quite full.
"""

from matplotlib.figure import Figure

from experiments.scenarios.downloads import draw_panels
from experiments.scenarios.throttling import ALWAYS, ThrottleOptions, held_points, measure, verdicts_on_hold
from experiments.study.blueprint import CONVERTERS
from experiments.study.readings import Point, Readings, Verdict
from experiments.study.scenario import Scenario
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Topology


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    return held_points(ALWAYS, topology)


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    return [
        verdict
        for point in _points(options, topology)
        for verdict in verdicts_on_hold(options, topology, readings.at(**point), f"{point['by']}, {point['family']}")
    ]


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    titled = {f"held from the join on, {name}": readings.at(by=name, family="ipv4") for name in CONVERTERS}
    draw_panels(figure, topology, titled)


SCENARIO = Scenario(
    name="throttle-again",
    paper="figure 6b",
    claim="With the throttle in place from the start, the download goes by the other path.",
    expected="The held path keeps to its rate, and the other one carries most.",
    profile=PROFILES / "slow.toml",
    options=ThrottleOptions,
    quick={"repeat": 1},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
)
