"""A path is throttled in the middle of a download.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s once half of the file has come
           ==wireless===                       6 Mbit/s

Derived: each path's rate on the wire before the operator's command and behind it. Expected: MPTCP's scheduler goes by
windows and round-trip times; the held path's window shrinks within a few of them, the load goes to the other path, and
the connection does not break.
"""

from matplotlib.figure import Figure

from experiments.scenarios.downloads import FAMILIES, draw_panels
from experiments.scenarios.throttling import MIDWAY, ThrottleOptions, measure, verdicts_on_hold
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.study.scenario import Scenario
from experiments.study.stage import CONVERTERS
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Topology

_TIMES = 2.0  # the rate that it is held to


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    first = topology.links[0].name
    return [
        {"by": converter, "held": MIDWAY, "link": first, "family": family}
        for family in FAMILIES
        for converter in CONVERTERS
    ]


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    verdicts = []
    for point in _points(options, topology):
        who, these = f"{point['by']}, {point['family']}", readings.at(**point)
        before = these.estimate(f"{point['link']}_before_mbps")
        bound = _TIMES * options.rate.amount / 1e6
        claim = f"{point['link']} carried far more before ({who})"
        verdicts += [at_least(claim, before, bound, "Mbit/s"), *verdicts_on_hold(options, topology, these, who)]
    return verdicts


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    titled = {f"held midway, {name}": readings.at(by=name, family="ipv4") for name in CONVERTERS}
    panels = draw_panels(figure, topology, titled)
    for axes, each in zip(panels, titled.values(), strict=True):
        axes.axvline(next(iter(each)).values["held_after_s"], color="black", linestyle="--", linewidth=1)


SCENARIO = Scenario(
    name="throttle-first",
    paper="figure 6a",
    claim="A throttle that comes in the middle of a download moves the load to the other path and breaks nothing.",
    expected="The held path falls to its rate within a third of a second, the other one stays full.",
    profile=PROFILES / "slow.toml",
    options=ThrottleOptions,
    quick={"repeat": 1},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
)
