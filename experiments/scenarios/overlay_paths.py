"""Which chain of converters, beside chains that are chosen by one criterion. Computed by the model, not measured.

    A ---- p ---- q ---- B     full mesh of a network's routers, each of which may have a converter
    r rounds take 1/2 * (sum of the hops' round-trip times) + (r - 1) * (the longest one)

Six networks of the Rocketfuel project (overlay/graphs/README.md), 79 to 315 nodes; routers that are no neighbours are
as far as the shortest path between them. The best chain of each pair is held against three others: "shortest" has the
least sum; "minimax" the least longest hop, and of such chains the shortest; "tree" the least longest hop as it comes,
along the shortest spanning tree. We do not know which of many minimax chains the paper takes, and whole milliseconds
make many equal: the two are the ends of what it may have had.

Derived: with one round only the sum counts, so that the best chain is the shortest; the more rounds, the more the
longest hop does, and with enough of them the best chain is a minimax one. Each graph is one reading; ± is over the six.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product

from matplotlib.figure import Figure

from experiments.plots import colours_of, name_paths, tidy
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Experiment, Repeat
from experiments.study.readings import Estimate, Point, Reading, Readings, Verdict, at_least, worst
from experiments.testbed.topology import Topology
from overlay.programs import CALCULATOR, ask
from tributary.paths import ROOT

_GRAPHS = ROOT / "overlay/graphs"
_OTHERS = ("shortest", "minimax", "tree")
_PERCENTILES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)
_ROUNDS = ("1", "5", "10")
_FEWER = {"5": 15.0, "10": 14.0}  # percent fewer converters than minimax, in the paper
_BETTER = {"5": 15.0, "10": 10.0}  # percent less time, at most, for a fifth of the pairs
_WHOLE = (
    "delays in whole milliseconds give many chains the same longest hop, and the shortest of these is the best chain "
    "itself for most pairs: which of them the paper takes is not known"
)


COMPUTED = Ground({"graphs": "overlay/graphs"}, lambda *_: nullcontext(Standing(None, emulation="nothing: computed")))
"""What needs no testbed."""


class OverlayPaths(Experiment):
    """Nothing is left to chance, so that one repetition says all."""

    paper = "MOSTO"
    claim = (
        "A chain chosen by sum and longest hop beats one chosen by either; with fewer converters than by the latter."
    )
    expected = "One round: as the shortest path. Many rounds: as minimax, which is far off where rounds are few."
    ground = COMPUTED

    repeat: Repeat = 1

    def points(self, _topology: Topology) -> list[Point]:
        graphs = sorted(path.stem.partition("-")[0] for path in _GRAPHS.glob("*.intra"))
        return [{"graph": graph, "rounds": rounds} for graph in graphs for rounds in _ROUNDS]

    def measure(self, _built: None, point: Point, repetition: int) -> Reading:
        """Of each of ``_OTHERS``: by how much its time is longer at each percentile of the pairs, for how many pairs at
        all and by over 40 %, and how many percent fewer converters the best chain has.
        """
        graph = _GRAPHS / f"{point['graph']}-latencies.intra"
        (found,) = ask(CALCULATOR, ["simulate", "--rounds", point["rounds"], str(graph)])["comparisons"]
        values = {"converters": found["converters"]}
        for name in _OTHERS:
            other = found[name]
            values[f"{name}_pairs_longer_percent"] = other["pairs_worse_percent"]
            values[f"{name}_pairs_40_longer_percent"] = other["pairs_40_worse_percent"]
            values[f"{name}_fewer_converters_percent"] = 100 * (1 - found["converters"] / other["converters"])
            values |= {_longer(name, at): other["worse_percent"][at] for at in _PERCENTILES}
        return Reading(point, repetition, values)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        one = readings.at(rounds="1")
        longer = one.values(_longer("shortest", 100))
        yield worst("one round: as short as the shortest path, for every pair", longer, 0.0, "%")
        for name in _OTHERS[1:]:
            pairs = one.estimate(f"{name}_pairs_40_longer_percent")
            yield at_least(f"one round: {name} takes over 40 % longer for 10 % of the pairs", pairs, 10.0, "%")
        for rounds, name in product(_BETTER, _OTHERS[1:]):
            for verdict in _against(name, rounds, readings.at(rounds=rounds)):
                yield verdict.or_differs(_WHOLE)

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        """The share of pairs (upwards) whose time is at most so much longer: a line for each graph."""
        colours = colours_of(_OTHERS)
        panels = figure.subplots(1, len(_ROUNDS), sharey=True, squeeze=False)[0]
        for axes, rounds in zip(panels, _ROUNDS, strict=True):
            for name, colour in colours.items():
                for reading in readings.at(rounds=rounds):
                    longer = [reading.values[_longer(name, at)] for at in _PERCENTILES]
                    axes.plot(longer, _PERCENTILES, color=colour, linewidth=0.9)
            axes.set_title(f"{rounds} round{'s' * (rounds != '1')}")
            axes.set_xlim(0, 150)
            tidy(axes, "both")
        figure.supxlabel("time beyond that of the best chain, %")
        figure.supylabel("pairs, %")
        name_paths(figure, colours)


def _longer(name: str, percentile: int) -> str:
    return f"{name}_longer_p{percentile}_percent"


def _against(name: str, rounds: str, readings: Readings) -> Iterator[Verdict]:
    """What the paper claims of several rounds; "up to" is the 99th percentile, as one pair of thousands is no claim."""
    # How much less time the best chain takes, in percent of another's, which takes so many percent longer.
    gains = [100 * longer / (100 + longer) for longer in readings.values(_longer(name, 99))]
    pairs = readings.estimate(f"{name}_pairs_longer_percent")
    fewer = readings.estimate(f"{name}_fewer_converters_percent")
    where = f"{rounds} rounds, beside {name}"
    yield at_least(f"{where}: less time for 20 % of the pairs", pairs, 20.0, "%")
    yield at_least(f"{where}: up to {_BETTER[rounds]:g} % less time", Estimate.of(gains), _BETTER[rounds], "%")
    yield at_least(f"{where}: {_FEWER[rounds]:g} % fewer converters", fewer, _FEWER[rounds], "%")
