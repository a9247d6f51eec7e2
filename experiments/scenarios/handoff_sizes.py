"""What clients get of objects from 64 kB to 64 MB, by hand-off, by proxies in the front's place, and directly.

    client ==2 links== switch ==1 link each== front or proxy, back end a, back end b

All links of a node have one rate. What passes a proxy has to leave it by its one link, so clients get that link's rate.
Past the front goes nothing but heads and what front and back ends tell each other: clients get the rate of both back
ends' links, twice that of a proxy, less what the hand-over of each request costs, which the size of an object does not
change. Two objects of 64 kB take one link of 1 Gbit/s 1 ms; a hand-over takes less than that of a processor.

Expected: hand-off is even with the better proxy at 256 kB at the latest, at 2 MB it gives at least 1.8 times as much,
and no less than 97 % of what clients get directly. The paper gains from 2 MB on.
"""

from collections.abc import Sequence
from operator import truediv

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.contest import CONTENDERS, DIRECT, HANDOFF, Contest, Contesting, is_here
from experiments.handoff.proxies import PROXIES
from experiments.plots import colours_of, tidy
from experiments.scenarios.sweeps import Sizes
from experiments.study.readings import Estimate, Point, Reading, Readings, Repeated, Verdict, at_least
from experiments.study.scenario import Options, Scenario
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Topology
from tributary.settings.units import PositiveRate, Size

_EVEN, _LARGE = 256_000, 2_000_000
_GAIN = 1.8
_NEARLY = 97
"""Percent of what clients get directly."""
_ROUNDS = 2
"""Objects that each connection gets at least, however large they are."""


class SizesOptions(Options):
    """``rate`` of a link; ``connections`` by each back end, for ``seconds`` at each of the ``sizes``, or for longer."""

    rate: PositiveRate = Field(default=PositiveRate(10**9), description="a rate, such as '1gbit'")
    sizes: Sizes = tuple(Size(kilobytes * 1000) for kilobytes in (64, 128, 256, 512, 1000, 2000, 8000, 64_000))
    connections: int = Field(default=8, ge=1, description="a whole number of connections, at least 1")
    seconds: float = Field(default=5.0, ge=1, description="a number of seconds, at least 1")


def _points(options: SizesOptions, _topology: Topology) -> list[Point]:
    return [{"by": by, "size": str(each.amount)} for each in options.sizes for by in CONTENDERS]


def _measure(built: Contest, options: SizesOptions, point: Point, repetition: int) -> Reading:
    """Nothing of who is not here. Raises CommandError (exit 1) if a request fails."""
    by = point["by"]
    here = is_here(by)
    size = int(point["size"])
    values = built.load(by, size, options.connections, _seconds(options, size)) if here else {}
    return Reading(point, repetition, values, {})


def _seconds(options: SizesOptions, size: int) -> float:
    """As the options say, or as long as a proxy's link takes for enough objects from both back ends."""
    bits = 8 * size * _ROUNDS * options.connections * len(Contesting.back_ends)
    return max(options.seconds, bits / options.rate.amount)


def _judge(options: SizesOptions, _topology: Topology, readings: Readings) -> list[Verdict]:
    verdicts = []
    for size in sorted(each.amount for each in options.sizes):
        where = f"at {size // 1000} kB"
        for by in PROXIES if size >= _EVEN else ():
            if gain := _over(readings.at(size=str(size)), by):
                least = _GAIN if size >= _LARGE else 1
                verdicts.append(at_least(f"clients get more by hand-off than by {by} {where}", gain, least, "x"))
        if size >= _LARGE and (share := _over(readings.at(size=str(size)), DIRECT)):
            percent = share.scaled(100)
            verdicts.append(at_least(f"and nearly what they get directly {where}", percent, _NEARLY, "%"))
    return verdicts


def _over(readings: Readings, by: str) -> Estimate | None:
    """How many times what somebody else gives in the same repetition hand-off does."""
    times = Repeated.of(truediv, *(readings.at(by=each).repeated("mbps") for each in (HANDOFF, by)))
    return times.estimate if times.numbers else None


def _draw(figure: Figure, _topology: Topology, readings: Readings) -> None:
    throughput, cost = figure.subplots(1, 2)
    for by, colour in colours_of(CONTENDERS).items():
        _line(throughput, readings.at(by=by), "mbps", colour, by)
        if by != DIRECT:
            _line(cost, readings.at(by=by), "front_cpu_ms_per_gb", colour, by)
    throughput.set_ylabel("Mbit/s that clients get")
    throughput.set_ylim(0)
    throughput.legend(frameon=False)
    cost.set_ylabel("ms of the front's processor, a GB")
    cost.set_yscale("log")
    for axes in (throughput, cost):
        axes.set_xscale("log")
        axes.set_xlabel("kB of an object")
        tidy(axes, "y")


def _line(axes: Axes, readings: Readings, value: str, colour: str, label: str) -> None:
    sizes: Sequence[str] = sorted({each.point["size"] for each in readings if value in each.values}, key=int)
    if sizes:
        means = [readings.at(size=size).estimate(value).mean for size in sizes]
        # What is directly there is what hand-off should give: both lines are to be seen where they are one.
        style = "--" if label == DIRECT else "-"
        axes.plot(
            [int(size) / 1000 for size in sizes], means, style, color=colour, marker="o", markersize=3, label=label
        )


SCENARIO = Scenario(
    name="handoff-sizes",
    paper="Prism, throughput by object size",
    claim="A hand-off gains over a proxy from objects of 2 MB on.",
    expected="Even at 256 kB; at least 1.8 times a proxy at 2 MB, and 97 % of what there is directly.",
    profile=DEFAULT,
    options=SizesOptions,
    quick={"repeat": 1, "sizes": "64kB,2MB", "seconds": 1},
    points=_points,
    blueprint=lambda options, _profile, _point: Contesting(options.rate, tuple(each.amount for each in options.sizes)),
    measure=_measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    any_links=False,
    in_turn=True,
)
