"""MPTCP to the converter over all access links, which speaks plain TCP to the server.

    client ==link 1== gateway ---- server      the first subflow over the first link, one more over each other link
           ==link 2==

Derived: each path's throughput over time, the sum behind slow start, the better path's share. Expected: the sum reaches
90 % of what legacy TCP gets over the links one by one, since nothing is lost and the buffers grow as they need; the
faster link carries more than half. The paper's wireless link remained almost unused. Ours is full: the paper's kernel
(MPTCP 0.89) coupled the congestion control of a session's subflows, which upstream Linux does not have. What coupling
is for, a bottleneck that subflows share with others, is the scenario `shared-bottleneck`.
"""

from collections.abc import Iterator
from itertools import product

from matplotlib.figure import Figure

from experiments.scenarios.downloads import LEGACY, DownloadExperiment, draw_panels, legacy_points
from experiments.study.blueprint import CONVERTERS
from experiments.study.metrics import Metric, ratio
from experiments.study.readings import Point, Reading, Readings, Repeated, Verdict, at_least, at_most, every
from experiments.testbed.topology import Topology

_HALF = ("wired.rate=50mbit", "wireless.rate=10mbit", "wireless.queue=50")
"""Links of half the rate: half of the packets are to be carried for as long. The first one's queue holds twice as long,
so that what a busy machine sends in one burst is not lost: after a loss cubic still fills the link.
"""
_SHARE = 0.9  # of the sum of what legacy TCP gets over each link
_IDLE = 0.25  # of its rate: a link that is almost fully underutilized, as the paper has it
_NOT_COUPLED = (
    "the paper's kernel coupled the subflows' congestion controls (RFC 6356), upstream Linux has none that does: "
    "each subflow fills its link by itself, as far as the receive buffer goes"
)


class Multipath(DownloadExperiment):
    """Legacy TCP over each link, in the same run, and each converter."""

    paper = "figure 3"
    claim = "Through the converter a client of MPTCP uses both links at once, and the better one carries most."
    expected = "90 % of what the links carry one by one or more, by either converter, by IPv4 and by IPv6."
    quick = {"repeat": 1, "longest": 3.5}
    quick_links = _HALF
    least_links = 2
    real_links = True

    def points(self, topology: Topology) -> list[Point]:
        through = every(by=CONVERTERS, link=[topology.links[0].name], family=topology.families)
        return legacy_points(topology) + through

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for family, converter in product(topology.families, CONVERTERS):
            yield from _verdicts(topology, readings.at(family=family), converter, f"{converter}, {family}")

    def metrics(self, readings: Readings) -> list[Metric]:
        """Of downloads by IPv4, whole or for `longest`: each, and both converters beside legacy TCP over each link."""
        these = readings.at(family="ipv4")
        links = dict.fromkeys(reading.point["link"] for reading in these.at(by=LEGACY))
        alone = {f"legacy_{link}": these.at(by=LEGACY, link=link).repeated("mbps") for link in links}
        squid, native = (these.at(by=name).repeated("mbps") for name in ("squid", "native"))
        best, total = Repeated.of_all(max, alone.values()), Repeated.of_all(sum, alone.values())
        rates = {**alone, "mptcp": squid, "native": native}
        return [
            *(Metric(f"{name}_mbps", [*rate.numbers.values()]) for name, rate in rates.items()),
            ratio("mptcp_vs_best_link", squid, best),
            ratio("mptcp_vs_sum", squid, total),
            ratio("native_vs_sum", native, total),
        ]

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        titled = {f"MPTCP through {name}": readings.at(by=name, family="ipv4") for name in CONVERTERS}
        draw_panels(figure, topology, titled)


def _verdicts(topology: Topology, readings: Readings, converter: str, who: str) -> Iterator[Verdict]:
    alone = [readings.at(by=LEGACY, link=link.name).repeated("steady_mbps") for link in topology.links]
    together = readings.at(by=converter)
    reached = together.repeated("steady_mbps")
    best_alone, total = Repeated.of_all(max, alone), Repeated.of_all(sum, alone)
    yield at_least(f"both paths together beat the best one ({who})", reached, best_alone, "Mbit/s")
    yield at_least(f"they reach 90 % of the paths' sum ({who})", reached, total * _SHARE, "Mbit/s")
    best = max(topology.links, key=lambda link: link.down.rate).name
    shares = together.each(lambda reading: 100 * _share(reading, best))
    yield at_least(f"the better path carries most ({who})", shares, 50, "%")
    rest = min(topology.links, key=lambda link: link.down.rate)
    used = together.each(
        lambda reading: 8e-6 * reading.values.get(f"{rest.name}_bytes", 0.0) / reading.values["seconds"]
    )
    idle = _IDLE * rest.down.rate.amount / 1e6
    yield at_most(f"the slower one is hardly used ({who})", used, idle, "Mbit/s").or_differs(_NOT_COUPLED)


def _share(reading: Reading, path: str) -> float:
    total = sum(number for name, number in reading.values.items() if name.endswith("_bytes"))
    return reading.values.get(f"{path}_bytes", 0.0) / total
