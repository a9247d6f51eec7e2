"""How long does it take to compute the chains of all pairs, to take one changed link in, to look a chain up?

The program of overlay/paths measures itself, on one core and a complete graph in which nearly every link counts: points
in a plane, each round trip 1 to 1.6 times the straight line. Its peer is Floyd-Warshall, which finds the shortest
chain of every pair alone.
"""

from collections.abc import Callable
from statistics import fmean

from experiments.bench.result import Result, Series
from overlay.calculator import ask

_UNITS = {
    "pairs_115_ms": "ms",
    "pairs_315_s": "s",
    "one_change_115_ms": "ms",
    "one_change_315_ms": "ms",
    "lookup_us": "µs",
    "floyd_warshall_115_ms": "ms",
    "floyd_warshall_315_s": "s",
}


def overlay(quick: bool, say: Callable[[str], None]) -> Result:
    """115 and 315 nodes; 300 links change, any of them, by up to a half. Most concern few pairs, a few concern many, so
    that of changes the mean is given as well, and how many took longer than a tenth of all pairs.
    """
    say("115 and 315 nodes")
    measured = ask(["bench", "--repeat", "2", "--changes", "30"] if quick else ["bench"])
    series = {name: Series(name, unit, tuple(measured[name])) for name, unit in _UNITS.items()}
    values = {name: each.median for name, each in series.items()}
    changes = series["one_change_115_ms"].numbers
    slow = sum(change > values["pairs_115_ms"] / 10 for change in changes) / len(changes)
    values |= {
        "one_change_mean_115_ms": fmean(changes),
        "one_change_mean_315_ms": fmean(series["one_change_315_ms"].numbers),
        "changes_beyond_a_tenth_115_percent": 100 * slow,
        "chains_a_pair_115": measured["chains_a_pair_115"],
    }
    ratios = {
        "one_change_vs_all_115": values["pairs_115_ms"] / values["one_change_115_ms"],
        "one_change_mean_vs_all_115": values["pairs_115_ms"] / values["one_change_mean_115_ms"],
        "one_change_vs_all_315": 1000 * values["pairs_315_s"] / values["one_change_315_ms"],
        "one_change_mean_vs_all_315": 1000 * values["pairs_315_s"] / values["one_change_mean_315_ms"],
        "pairs_115_vs_floyd_warshall": values["floyd_warshall_115_ms"] / values["pairs_115_ms"],
        "pairs_315_vs_floyd_warshall": values["floyd_warshall_315_s"] / values["pairs_315_s"],
    }
    return Result(series=tuple(series.values()), ratios=ratios, values=values)
