"""Legacy TCP over each access link alone: what everything else is held against.

    client ==link== gateway ---- server        one TCP connection, the gateway forwards packets

Derived: throughput behind slow start, and its share of the link's rate. Expected: cubic fills a link without loss whose
queue holds its bandwidth-delay product; of each 1,500 bytes that the link carries 1,448 are payload, 1,428 by IPv6.
"""

from collections.abc import Iterator
from itertools import product

from matplotlib.figure import Figure

from experiments.scenarios.downloads import DownloadExperiment, draw_panels, legacy_points
from experiments.study.readings import Point, Readings, Verdict, at_least
from experiments.testbed.topology import Topology

_SHARE = 0.9  # of the link's rate, as payload


class Legacy(DownloadExperiment):
    """Every link by each family."""

    paper = "figure 2"
    claim = "A client of legacy TCP gets the one link that it connects over, and no more."
    expected = "Each link filled to 90 % of its rate or more, by IPv4 and by IPv6."
    real_links = True

    def points(self, topology: Topology) -> list[Point]:
        return legacy_points(topology)

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for family, link in product(topology.families, topology.links):
            reached = readings.at(link=link.name, family=family).estimate("steady_mbps")
            bound = _SHARE * link.down.rate.amount / 1e6
            yield at_least(f"TCP over {link.name} fills it ({family})", reached, bound, "Mbit/s")

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        titled = {f"legacy TCP over {link.name}": readings.at(link=link.name, family="ipv4") for link in topology.links}
        draw_panels(figure, topology, titled)
