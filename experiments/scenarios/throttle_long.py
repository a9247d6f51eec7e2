"""A long download with and without the throttle.

    client ==wired====== gateway ---- server   100 Mbit/s, held to 5 Mbit/s from the other subflow's join on
           ==wireless===                       20 Mbit/s

Derived: what each path carried of the file and how fast; the whole beside the same unthrottled, and beside legacy TCP
over each link. The paper: the wireless link is faster than unthrottled, the whole a little slower, and still beats
legacy TCP. Expected: the other link carries four fifths of the file, where it had a sixth: not at a higher rate, since
MPTCP had filled it before, but for longer; the whole beats legacy TCP over that link by the held path's 5 Mbit/s, less
headers, and not legacy TCP over the first link, which nobody holds.
"""

from collections.abc import Iterator
from itertools import product

from matplotlib.figure import Figure

from experiments.scenarios.downloads import LEGACY, draw_panels
from experiments.scenarios.throttling import ALWAYS, FREE, ThrottleExperiment
from experiments.study.blueprint import CONVERTERS
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.testbed.appliance import BufferSize
from experiments.testbed.topology import Topology
from tributary.settings.units import PositiveRate, Size

_FILLED = 0.85  # of the other link's rate, on the wire
_HIGHER = 1.05  # times the rate without throttling
_LITTLE = 0.8  # of the rate without throttling
_FULL_BEFORE = (
    "that link is full without throttling as well: upstream Linux does not couple the subflows' congestion controls "
    "(see multipath), so that it carries more of the file for longer, and not faster"
)
_FAST_BEFORE = "the first link carries four fifths of all when nobody throttles it, and a twentieth of its rate then"


class ThrottleLong(ThrottleExperiment):
    """As the others, with a larger file, a higher rate and the appliance's receive buffer."""

    paper = "figure 7"
    claim = "The other link is faster than unthrottled, the whole a little slower, and still faster than legacy TCP."
    expected = "The other link carries four fifths of the file instead of a sixth; the sum beats it, not the first."
    quick = {"repeat": 1, "size": "40MB"}

    size: Size = Size(200_000_000)
    rate: PositiveRate = PositiveRate(5_000_000)
    buffer: BufferSize = BufferSize(32_000_000)

    def points(self, topology: Topology) -> list[Point]:
        first = topology.links[0].name
        alone = [{"by": LEGACY, "held": FREE, "link": link.name} for link in topology.links[:2]]
        through = [{"by": name, "held": held, "link": first} for name in CONVERTERS for held in (FREE, ALWAYS)]
        return [{**each, "family": family} for family in topology.families for each in (*alone, *through)]

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for family, converter in product(topology.families, CONVERTERS):
            yield from self._verdicts(topology, readings.at(family=family), converter, f"{converter}, {family}")

    def _verdicts(self, topology: Topology, readings: Readings, converter: str, who: str) -> Iterator[Verdict]:
        link = topology.links[1]
        other = link.name
        free, held = (readings.at(by=converter, held=held) for held in (FREE, ALWAYS))
        yield from self.on_hold(topology, held, who)
        filled, bound = held.estimate(f"{other}_after_mbps"), _FILLED * link.down.rate.amount / 1e6
        yield at_least(f"{other} is filled meanwhile, on the wire ({who})", filled, bound, "Mbit/s")
        moved, before = (each.repeated(f"{other}_bytes") * 1e-6 for each in (held, free))
        yield at_least(f"{other} carries more of the file than unthrottled ({who})", moved, before, "MB")
        faster, unthrottled = (each.repeated(f"{other}_after_mbps") for each in (held, free))
        claim = f"{other} is faster than without throttling, on the wire ({who})"
        yield at_least(claim, faster, unthrottled * _HIGHER, "Mbit/s").or_differs(_FULL_BEFORE)
        whole, unheld = (each.repeated("mbps") for each in (held, free))
        claim = f"the whole is a little slower than without throttling ({who})"
        yield at_least(claim, whole, unheld * _LITTLE, "Mbit/s").or_differs(_FAST_BEFORE)
        alone = {each: readings.at(by=LEGACY, link=each.name).repeated("mbps") for each in topology.links[:2]}
        for each, rate in alone.items():
            if rate.numbers:
                verdict = at_least(f"the whole beats legacy TCP over {each.name} ({who})", whole, rate, "Mbit/s")
                yield verdict if each is link else verdict.or_differs(_FAST_BEFORE)

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        titled = {
            f"legacy TCP over {link.name}": readings.at(by=LEGACY, link=link.name, family="ipv4")
            for link in topology.links[:2]
            if list(readings.at(by=LEGACY, link=link.name))
        }
        titled |= {
            f"native, {'held' if held == ALWAYS else 'free'}": readings.at(by="native", held=held, family="ipv4")
            for held in (FREE, ALWAYS)
        }
        draw_panels(figure, topology, titled)
