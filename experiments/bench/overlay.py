"""How long does it take to compute the chains of all pairs, and to look one up?

The program of overlay/paths measures itself, on one core and a complete graph in which nearly every link counts: points
in a plane, each round trip 1 to 1.6 times the straight line. Its peer is Floyd-Warshall, which finds the shortest
chain of every pair alone.
"""

from statistics import median

from pydantic import Field

from experiments.scenarios.overlay_paths import Computation, Computed
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from overlay.calculator import ask

_UNITS = {
    "pairs_115_ms": "ms",
    "pairs_315_s": "s",
    "lookup_us": "µs",
    "floyd_warshall_115_ms": "ms",
    "floyd_warshall_315_s": "s",
}
_CHAINS = "chains_a_pair_115"


class PathOptions(Options):
    """All pairs are computed so many ``times``."""

    repeat: Repeat = 1
    times: int = Field(default=9, ge=1, description="a whole number, at least 1")


def _measure(_built: Computed, options: PathOptions, point: Point, repetition: int) -> Reading:
    """The medians of what the program measured, and all of it."""
    measured = ask(["bench", "--repeat", str(options.times)])
    values = {name: median(measured[name]) for name in _UNITS} | {_CHAINS: measured[_CHAINS]}
    return Reading(point, repetition, values, {}, {name: measured[name] for name in _UNITS})


def figures(readings: Readings) -> Figures:
    """Medians, and how all pairs compare with Floyd-Warshall."""
    series = {name: Series(name, unit, readings.samples(name)) for name, unit in _UNITS.items()}
    values = {name: each.median for name, each in series.items()}
    values |= {_CHAINS: median(readings.values(_CHAINS))}
    ratios = {
        "pairs_115_vs_floyd_warshall": values["floyd_warshall_115_ms"] / values["pairs_115_ms"],
        "pairs_315_vs_floyd_warshall": values["floyd_warshall_315_s"] / values["pairs_315_s"],
    }
    return Figures(list(series.values()), ratios, values)


SCENARIO = benchmark(
    name="overlay",
    question="How long do the chains of all pairs take, and a look-up?",
    about=__doc__,
    options=PathOptions,
    quick={"times": 2},
    points=lambda _options: [{"graph": "points in a plane"}],
    blueprint=lambda _options, _profile, _point: Computation(),
    measure=_measure,
    figures=figures,
)
