"""A long download with and without the throttle.

    client ==wired====== gateway ---- server   100 Mbit/s, held to 5 Mbit/s from the other subflow's join on
           ==wireless===                       20 Mbit/s

Derived: what each path carried of the file, and the whole beside legacy TCP over the other link. Expected: the other
link carries four fifths of the file, where it had a sixth: not at a higher rate, since MPTCP had filled it before, but
for longer; the whole beats legacy TCP over it by the held path's 5 Mbit/s, less headers.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from experiments.scenarios.downloads import LEGACY, draw_panels
from experiments.scenarios.throttling import ALWAYS, FREE, ThrottleOptions, measure, verdicts_on_hold
from experiments.study.blueprint import CONVERTERS
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.study.scenario import Scenario
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import FAMILIES, Topology
from tributary.settings.units import PositiveRate, Size

_FILLED = 0.85  # of the other link's rate, on the wire


class LongOptions(ThrottleOptions):
    """As the others, with a larger file, a higher rate and the appliance's receive buffer."""

    size: Size = Size(200_000_000)
    rate: PositiveRate = PositiveRate(5_000_000)
    buffer: Size = Size(32_000_000)


def _points(_options: ThrottleOptions, topology: Topology) -> list[Point]:
    first, other = topology.links[0].name, topology.links[1].name
    return [
        point
        for family in FAMILIES
        for point in (
            {"by": LEGACY, "held": FREE, "link": other, "family": family},
            *(
                {"by": name, "held": held, "link": first, "family": family}
                for name in CONVERTERS
                for held in (FREE, ALWAYS)
            ),
        )
    ]


def _judge(options: ThrottleOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    return [
        verdict
        for family in FAMILIES
        for converter in CONVERTERS
        for verdict in _verdicts(options, topology, readings.at(family=family), converter, f"{converter}, {family}")
    ]


def _verdicts(
    options: ThrottleOptions, topology: Topology, readings: Readings, converter: str, who: str
) -> Iterator[Verdict]:
    link = topology.links[1]
    other = link.name
    free, held = (readings.at(by=converter, held=held) for held in (FREE, ALWAYS))
    yield from verdicts_on_hold(options, topology, held, who)
    filled, bound = held.estimate(f"{other}_after_mbps"), _FILLED * link.down.rate.amount / 1e6
    yield at_least(f"{other} is filled meanwhile, on the wire ({who})", filled, bound, "Mbit/s")
    moved, before = (each.estimate(f"{other}_bytes").scaled(1e-6) for each in (held, free))
    yield at_least(f"{other} carries more of the file than unthrottled ({who})", moved, before.mean, "MB")
    alone = readings.at(by=LEGACY).estimate("mbps").mean
    yield at_least(f"the whole beats legacy TCP over {other} ({who})", held.estimate("mbps"), alone, "Mbit/s")


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    other = topology.links[1].name
    titled = {f"legacy TCP over {other}": readings.at(by=LEGACY, family="ipv4")}
    titled |= {
        f"native, {'held' if held == ALWAYS else 'free'}": readings.at(by="native", held=held, family="ipv4")
        for held in (FREE, ALWAYS)
    }
    draw_panels(figure, topology, titled)


SCENARIO = Scenario(
    name="throttle-long",
    paper="figure 7",
    claim="Of 200 MB the load moves to the other link, and the whole still beats legacy TCP on that link.",
    expected="The other link carries four fifths of the file instead of a sixth; the sum beats it alone.",
    profile=DEFAULT,
    options=LongOptions,
    quick={"repeat": 1, "size": "40MB"},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
)
