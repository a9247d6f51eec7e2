"""Does MPTCP through the gateway use both links? Peers: legacy TCP over each of them, in the same run.

    client ==wired===== gateway ---- server      the kernel's own settings at both ends
           ==wireless==

Downloads in turn; medians and their ratios.
"""

from experiments.scenarios.downloads import LEGACY, QUICK, DownloadOptions, measure
from experiments.study.benchmark import benchmark
from experiments.study.blueprint import TestbedBlueprint
from experiments.study.figures import Figures, Series
from experiments.study.readings import Point, Readings
from experiments.study.scenario import Repeat

_CONTENDERS: dict[str, Point] = {
    "legacy_wired": {"by": LEGACY, "link": "wired", "family": "ipv4"},
    "legacy_wireless": {"by": LEGACY, "link": "wireless", "family": "ipv4"},
    "mptcp": {"by": "squid", "link": "wired", "family": "ipv4"},
    "native": {"by": "native", "link": "wired", "family": "ipv4"},
}


class AggregationOptions(DownloadOptions):
    """As of all downloads."""

    repeat: Repeat = 5


def figures(readings: Readings) -> Figures:
    """Of whole downloads."""
    series = [Series(name, "Mbit/s", readings.at(**point).values("mbps")) for name, point in _CONTENDERS.items()]
    wired, wireless, mptcp, native = (each.median for each in series)
    return Figures(
        series,
        ratios={
            "mptcp_vs_best_link": mptcp / max(wired, wireless),
            "mptcp_vs_sum": mptcp / (wired + wireless),
            "native_vs_sum": native / (wired + wireless),
        },
        values={f"{each.name}_mbps": each.median for each in series},
    )


SCENARIO = benchmark(
    name="aggregation",
    question="Does MPTCP through the gateway use both links?",
    about=__doc__,
    options=AggregationOptions,
    quick=QUICK,
    points=lambda _options: list(_CONTENDERS.values()),
    blueprint=lambda _options, profile, _point: TestbedBlueprint(profile, tuned=False),
    measure=measure,
    figures=figures,
)
