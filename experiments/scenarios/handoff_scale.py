"""What clients get from one to eight back ends, by hand-off, by proxies in the front's place, and directly.

    client ==8 links== switch ==1 link each== front or proxy, back ends a to h

All links of a node have one rate, here a low one: eight of them together must not need all processors of this machine.
What passes a proxy leaves it by its one link, so more back ends give clients nothing. By hand-off they give as much
more as their links carry, until the front's processor is used up by hand-overs; it has to do with each request, and not
with its answer's length.

Expected: eight back ends give at least 7.2 times what one gives, and the front's link carries at most a twentieth.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.contest import CONTENDERS, HANDOFF, Contest, contest, is_here
from experiments.handoff.network import MOST_BACK_ENDS
from experiments.plots import name_axes
from experiments.scenarios.handoff_sizes import draw_contenders
from experiments.study.blueprint import Ground
from experiments.study.experiment import Count, Experiment
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import PositiveRate, Size

_NAMES = tuple(chr(ord("a") + number) for number in range(MOST_BACK_ENDS))
_NUMBERS = ("1", "2", "4", "8")
_LEAST = 0.9
"""Of what as many back ends would give that each give what one alone does."""
_PASSING = 5
"""Percent of the answers' bytes."""


class HandoffScale(Experiment):
    """``rate`` of a link, ``size`` of an object, ``connections`` by each back end, for ``seconds``."""

    paper = "Prism, throughput by back ends"
    claim = "What clients get grows with the number of back ends, while the front idles."
    expected = "Eight back ends give at least 7.2 times what one gives; the front's link carries a twentieth at most."
    quick = {"repeat": 1, "seconds": 1}
    in_turn = True
    at = [{"by": by, "back_ends": number} for number in _NUMBERS for by in CONTENDERS]

    rate: PositiveRate = PositiveRate(200 * 10**6)
    size: Size = Size(1_000_000)
    connections: Count = 4
    seconds: float = Field(default=5.0, ge=1, description="a number of seconds, at least 1")

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Contest]:
        return contest(self.rate, (self.size.amount,), _NAMES, links_of_client=MOST_BACK_ENDS)

    def measure(self, built: Contest, point: Point, repetition: int) -> Reading:
        """Nothing of who is not here. Raises CommandError (exit 1) if a request fails."""
        by, many = point["by"], int(point["back_ends"])
        here = is_here(by)
        values = built.load(by, self.size.amount, self.connections, self.seconds, many) if here else {}
        return Reading(point, repetition, values)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        one, *more = (readings.at(by=HANDOFF, back_ends=number) for number in _NUMBERS)
        for number, these in zip(_NUMBERS[1:], more, strict=True):
            times = these.repeated("mbps") / one.repeated("mbps")
            claim = f"{number} back ends give nearly {number} times what one gives"
            yield at_least(claim, times, _LEAST * int(number), "x")
        yield at_most("the front's link idles", more[-1].estimate("front_percent"), _PASSING, "% of the answers' bytes")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        panels = figure.subplots(1, 2)
        for axes, value in zip(panels, ("mbps", "front_cpu_percent"), strict=True):
            draw_contenders(axes, value, readings.over("back_ends"))
        name_axes(panels[0], "back ends", "Mbit/s that clients get", "y", legend=True)
        name_axes(panels[1], "back ends", "% of the front's processor", "y")
