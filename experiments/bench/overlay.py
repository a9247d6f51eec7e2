"""How long does it take to compute the chains of all pairs, and to look one up?

The program of overlay/paths measures itself, on one core and a complete graph in which nearly every link counts: points
in a plane, each round trip 1 to 1.6 times the straight line. Its peer is Floyd-Warshall, which finds the shortest
chain of every pair alone.
"""

from statistics import median

from experiments.scenarios.overlay_paths import COMPUTED
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.metrics import Metric, metrics_of, ratio
from experiments.study.readings import Point, Reading, Readings
from overlay.programs import CALCULATOR, ask

_MEASURED = ("pairs_115_ms", "pairs_315_s", "lookup_us", "floyd_warshall_115_ms", "floyd_warshall_315_s")
_CHAINS = "chains_a_pair_115"


class Overlay(Experiment):
    """All pairs are computed so many ``times``."""

    claim = "How long do the chains of all pairs take, and a look-up?"
    quick = {"times": 2}
    at = [{"graph": "points in a plane"}]
    ground = COMPUTED

    repeat: Repeat = 1
    times: Count = 9

    def measure(self, _built: None, point: Point, repetition: int) -> Reading:
        measured = ask(CALCULATOR, ["bench", "--repeat", str(self.times)])
        values = {name: median(measured[name]) for name in _MEASURED} | {_CHAINS: measured[_CHAINS]}
        return Reading(point, repetition, values, samples={name: measured[name] for name in _MEASURED})

    def metrics(self, readings: Readings) -> list[Metric]:
        return [
            *metrics_of(readings, (*_MEASURED, _CHAINS)),
            *(
                ratio(
                    f"pairs_{nodes}_vs_floyd_warshall",
                    *(readings.repeated(f"{who}_{nodes}_{unit}") for who in ("floyd_warshall", "pairs")),
                )
                for nodes, unit in (("115", "ms"), ("315", "s"))
            ),
        ]
