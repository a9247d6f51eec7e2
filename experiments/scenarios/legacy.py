"""Legacy TCP over each access link alone: what everything else is held against.

    client ==link== gateway ---- server        one TCP connection, the gateway forwards packets

Derived: throughput behind slow start, and its share of the link's rate. Expected: cubic fills a link without loss whose
queue holds its bandwidth-delay product; of each 1,500 bytes that the link carries 1,448 are payload, 1,428 by IPv6.
"""

from matplotlib.figure import Figure

from experiments.plots import colours_of, draw_paths, label
from experiments.scenarios.downloads import FAMILIES, LEGACY, DownloadOptions, measure
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.study.scenario import Scenario
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Topology

_SHARE = 0.9  # of the link's rate, as payload


def _points(_options: DownloadOptions, topology: Topology) -> list[Point]:
    return [{"by": LEGACY, "link": link.name, "family": family} for family in FAMILIES for link in topology.links]


def _judge(_options: DownloadOptions, topology: Topology, readings: Readings) -> list[Verdict]:
    return [
        at_least(
            f"TCP over {link.name} fills it ({family})",
            readings.at(link=link.name, family=family).estimate("steady_mbps"),
            _SHARE * link.down.rate.amount / 1e6,
            "Mbit/s",
        )
        for family in FAMILIES
        for link in topology.links
    ]


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    colours = colours_of(link.name for link in topology.links)
    panels = figure.subplots(1, len(topology.links), sharey=True, squeeze=False)[0]
    for axes, link in zip(panels, topology.links, strict=True):
        reading = next(iter(readings.at(link=link.name, family="ipv4")))
        draw_paths(axes, reading.series, colours, reading.values["seconds"])
        axes.set_title(f"legacy TCP over {link.name}: {reading.values['mbps']:.1f} Mbit/s", fontsize=10)
    label(figure, colours)


SCENARIO = Scenario(
    name="legacy",
    paper="figure 2",
    claim="A client of legacy TCP gets the one link that it connects over, and no more.",
    expected="Each link filled to 90 % of its rate or more, by IPv4 and by IPv6.",
    profile=DEFAULT,
    options=DownloadOptions,
    quick={"repeat": 1, "size": "20MB", "warm_up": 0.5},
    points=_points,
    measure=measure,
    judge=_judge,
    draw=_draw,
)
