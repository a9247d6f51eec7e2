"""Short transfers through one native converter that is off the path: where the detour pays, and where not.

                 proxy                 25 to 37.5 ms each way on either side of the proxy
               /       \\
        client --------- server        50 ms each way without it, 100 Mbit/s

Derived: from connect(2) to the first byte of the answer and to its last, medians of several transfers of each size, and
what they save of the direct way's time. By the model of the experiment ``acceleration``, with R for the round trip of
the direct way and D for that of the detour, the first byte takes 2 R directly and 1.5 D by early SYN forwarding, which
pays up to D = 1.33 R, 33 ms a side; by 0-RTT Convert it takes D, which pays up to twice as much. Each further round of
slow start takes R directly and half of D: the longer the transfer, the longer a detour pays. Expected: gains and losses
where the model has them, also with one round more (see ``acceleration``).
"""

from collections.abc import Iterator
from itertools import product

from matplotlib.figure import Figure

from experiments.plots import line, theory, tidy
from experiments.scenarios.acceleration import Model, TransferExperiment, gain, segments, sizes_in
from experiments.study.blueprint import Ground
from experiments.study.experiment import Durations, Sizes
from experiments.study.plot import resize
from experiments.study.readings import Decision, Estimate, Point, Readings, Verdict, at_least, at_most, together
from experiments.testbed.chain import By, Chain, split
from experiments.testbed.topology import Link, Profile, Topology
from tributary.settings.units import Duration, Size

_DIRECT = Duration(25_000)
"""On either side of a proxy that is on the path."""
_SURE = 3.0
"""Per cent that a gain or a loss has by the model to be held to its sign."""
_BY = (By.EARLY, By.ZERO_RTT)
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")


class AccelerationOffPath(TransferExperiment):
    """``side``: one-way delays between proxy and client, and proxy and server."""

    paper = "Miniproxy, figure 5"
    claim = "A proxy that is not on the path pays as long as the detour is short."
    expected = "Early SYN forwarding gains up to 33 ms a side for the first byte, and further out for longer transfers."
    quick = {"repeat": 1, "count": 3, "size": "10kB,500kB", "side": "25ms,30ms,37500us"}
    any_links = True

    size: Sizes = tuple(Size(1000 * kilobytes) for kilobytes in (10, 25, 100, 500))
    side: Durations = tuple(Duration(microseconds) for microseconds in range(25_000, 40_000, 2_500))

    def points(self, _topology: Topology) -> list[Point]:
        detours = [{"side": str(side), "by": by.value} for side in self.side for by in _BY]
        return [{"side": str(_DIRECT), "by": By.DIRECT.value}, *detours]

    def blueprint(self, profile: Profile, point: Point) -> Ground[Chain]:
        return segments(split(detour(Topology.of(profile).links[0], Duration.parse(point["side"])), 2))

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        link, direct = topology.links[0], readings.at(by=By.DIRECT.value)
        first_byte = f"first_byte_ms_{self.size[0].amount // 1000}"
        values = [first_byte, *(f"whole_ms_{size.amount // 1000}" for size in self.size)]
        for by in _BY:
            judged = {}
            for side, value in product(self.side, values):
                measured = gain(direct, readings.at(side=str(side), by=by.value), value).estimate
                judged[f"{value} at {side}"] = _as_by_the_model(link, side, by, value, measured)
            called = {Decision.FAILS: "wrong", Decision.UNDECIDED: "unclear"}
            places = {
                name: [place for place, each in judged.items() if each is which] for which, name in called.items()
            }
            named = "; ".join(f"{name}: {', '.join(them)}" for name, them in places.items() if them)
            claim, bound = f"a detour gains and loses where the model has it ({by.value})", "none on the other side"
            yield Verdict(claim, named or bound, bound, together(judged.values()))
        nearest, farthest = self.side[0], self.side[-1]
        early = {side: readings.at(side=str(side), by=By.EARLY.value) for side in (nearest, farthest)}
        if _expected(link, nearest, By.EARLY, first_byte) > _SURE:
            claim = f"the first byte comes sooner by a proxy {nearest} from either end"
            yield at_least(claim, gain(direct, early[nearest], first_byte), 0, "%")
        if _expected(link, farthest, By.EARLY, first_byte) < -_SURE:
            claim = f"and later by one {farthest} from either end"
            yield at_most(claim, gain(direct, early[farthest], first_byte), 0, "%")

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        resize(figure, 10, 4.5)
        link, direct = topology.links[0], readings.at(by=By.DIRECT.value)
        first, *sizes = sizes_in(readings)
        lines = {"first byte": f"first_byte_ms_{first}", **{f"{size} kB": f"whole_ms_{size}" for size in sizes}}
        for axes, by in zip(figure.subplots(1, 2, sharey=True), _BY, strict=True):
            taken = readings.at(by=by.value).over("side", lambda text: 1000 * Duration.parse(text).seconds)
            for (label, value), colour in zip(lines.items(), _COLOURS, strict=False):
                line(axes, {ms: gain(direct, each, value).estimate for ms, each in taken.items()}, label, color=colour)
                theory(axes, {ms: _expected(link, Duration(round(1000 * ms)), by, value) for ms in taken}, colour)
            axes.axhline(0, color="black", linewidth=0.8)
            axes.set_title(by.value, fontsize=10)
            axes.set_xlabel("ms from the proxy to either end (dotted: the model)")
            axes.set_ylabel("% of the direct way's time saved")
            tidy(axes, "both")
        figure.axes[0].legend(frameon=False, fontsize=8)


def detour(link: Link, side: Duration) -> Link:
    """``link`` as long as the way by a proxy that is so far from either end."""
    return link.with_each_way(delay=Duration(2 * side.amount))


def _as_by_the_model(link: Link, side: Duration, by: By, value: str, gained: Estimate) -> Decision:
    """Whether a detour gains where it has to, and loses where it has to; between the two it may do either."""
    if _expected(link, side, by, value) < -_SURE:
        return gained.keeps_to(0)
    if _expected(link, side, by, value, more_rounds=1) > _SURE:
        return gained.reaches(0)
    return Decision.HOLDS


def _expected(link: Link, side: Duration, by: By, value: str, more_rounds: int = 0) -> float:
    """By how many per cent ``value`` is shorter by the model, or with so many ``more_rounds`` of slow start."""
    direct, by_proxy = Model(link, 1, By.DIRECT), Model(detour(link, side), 1, by)
    if value.startswith("first_byte"):
        return 100 * (1 - by_proxy.first_byte / direct.first_byte)
    size = 1000 * int(value.rpartition("_")[2])
    return 100 * (1 - (by_proxy.whole(size) + more_rounds * by_proxy.round) / direct.whole(size))
