"""Verdicts on chains of converters."""

from experiments.scenarios.overlay_paths import OverlayPaths
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test

PERCENTILES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)


def good(point: Point) -> dict[str, float]:
    values = {"converters": 4.0}
    for name, longer in {"shortest": 100.0, "minimax": 20.0, "tree": 30.0}.items():
        same = point["rounds"] == "1" and name == "shortest"
        values |= {f"{name}_longer_p{at}_percent": 0.0 if same else longer * at / 100 for at in PERCENTILES}
        values |= {f"{name}_pairs_longer_percent": 25.0, f"{name}_pairs_40_longer_percent": 12.0}
        values[f"{name}_fewer_converters_percent"] = 16.0
    return values


test_claims = claims_test(
    OverlayPaths,
    good,
    (
        but(good, {"rounds": "1"}, shortest_longer_p100_percent=0.1),
        "one round: as short as the shortest path, for every pair",
    ),
    (
        but(good, {"rounds": "1"}, tree_pairs_40_longer_percent=9.0),
        "one round: tree takes over 40 % longer for 10 % of the pairs",
    ),
    (
        but(good, {"rounds": "5"}, minimax_pairs_longer_percent=19.0),
        "5 rounds, beside minimax: less time for 20 % of the pairs",
    ),
    (but(good, {"rounds": "5"}, tree_longer_p99_percent=17.0), "5 rounds, beside tree: up to 15 % less time"),
    (
        but(good, {"rounds": "10"}, minimax_fewer_converters_percent=13.9),
        "10 rounds, beside minimax: 14 % fewer converters",
    ),
    panels=3,
    differing_too=True,
)
