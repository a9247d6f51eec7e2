"""The client's receive buffer: how much MPTCP needs, and what becomes of it with less.

    client ==wired====== gateway ---- server   44 Mbit/s, 8 ms, and up to 10 ms in its queue
           ==wireless===                       20 Mbit/s, 15 ms, and up to 15 ms in its queue

What came by the fast path waits until the slow one has filled the gap. A receiver that shall never stop its sender has
to hold twice the sum of the rates times the longest round-trip time (RFC 6182 section 5.3): 2 x 64 Mbit/s x 30 ms are
0.48 MB. Derived: throughput behind slow start for each size, segments that waited in the client (MPTcpExtOFOQueue),
data that the gateway sent again by the other path (MPTcpExtMPTCPRetrans) and that came twice (MPTcpExtDuplicateData).
Expected: 0.18 MB close the window again and again, 0.72 MB never do; beyond the knee nothing is gained.
"""

from collections.abc import Iterator, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.plots import colours_of, draw_paths, name_axes, name_paths
from experiments.scenarios.downloads import BufferExperiment, draw_sweep, megabytes
from experiments.study.blueprint import CONVERTERS
from experiments.study.experiment import Buffers
from experiments.study.plot import resize
from experiments.study.readings import Point, Readings, Repeated, Verdict, at_least, at_most, every, within
from experiments.testbed.appliance import BufferSize
from experiments.testbed.topology import Topology

_FULL_PACKET = 8 * 1500  # bits
_TOO_SMALL, _LARGE = BufferSize(180_000), BufferSize(720_000)
_SWEEP = tuple(BufferSize(1000 * kilobytes) for kilobytes in (50, 100, 180, 240, 360, 480, 720, 1000, 2000, 4000))
_GOOD = 0.95  # of the best throughput: behind the knee


def needed(topology: Topology) -> float:
    """Bytes that a receiver has to hold: twice the rates' sum times the longest round trip, its queue filled.

    RFC 6182 section 5.3; TCP fills queues.
    """
    longest = max(link.rtt + link.down.queue * _FULL_PACKET / link.down.rate.amount for link in topology.links)
    return 2 * sum(link.down.rate.amount for link in topology.links) * longest / 8


class Buffer(BufferExperiment):
    """Every size by IPv4; the paper's two by IPv6 as well."""

    paper = "figure 4"
    claim = "A receive buffer of 0.18 MB starves MPTCP, one of 0.72 MB does not: 0.48 MB are needed."
    expected = "Throughput grows with the buffer up to about 0.48 MB and not beyond."
    quick = {"repeat": 1, "seconds": 3.0, "warm_up": 1.0, "buffer": "0.18MB,0.48MB,0.72MB,4MB"}
    real_links = True

    buffer: Buffers = _SWEEP

    def points(self, topology: Topology) -> list[Point]:
        first, of_both = [topology.links[0].name], [size for size in self.buffer if size in (_TOO_SMALL, _LARGE)]
        by_family = {"ipv4": self.buffer, "ipv6": of_both}
        return [
            point
            for family in topology.families
            for point in every(buffer=by_family[family], by=CONVERTERS, link=first, family=[family])
        ]

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for converter in CONVERTERS:
            ours = readings.at(by=converter)
            if {_TOO_SMALL, _LARGE} <= set(self.buffer):
                yield from _on_the_papers_sizes(topology, ours, converter)
            yield from self._on_the_knee(needed(topology), ours.at(family="ipv4"), converter)

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        resize(figure, 10, 6)
        panels: dict[str, Axes] = figure.subplot_mosaic([["throughput", "small"], ["waited", "large"]])
        _draw_sweeps(panels["throughput"], panels["waited"], readings.at(family="ipv4"), needed(topology))
        colours = colours_of(link.name for link in topology.links)
        for panel, size in (("small", _TOO_SMALL), ("large", _LARGE)):
            for reading in list(readings.at(by="native", family="ipv4", buffer=str(size)))[:1]:
                draw_paths(panels[panel], reading.series, colours, reading.values["seconds"])
            panels[panel].set_title(f"{size.amount / 1e6:g} MB, native", fontsize=10)
            panels[panel].set_xlabel("seconds since the request")
            panels[panel].set_ylabel("Mbit/s (paths stacked)")
            panels[panel].set_ylim(0, sum(link.down.rate.amount for link in topology.links) / 1e6)
        name_paths(figure, colours)

    def _on_the_knee(self, theory: float, readings: Readings, converter: str) -> Iterator[Verdict]:
        reached = {size: these.repeated("steady_mbps") for size, these in readings.over("buffer", megabytes).items()}
        if large := reached.get(_LARGE.amount / 1e6):
            best = Repeated.of_all(max, reached.values())
            yield at_least(f"0.72 MB are enough: 95 % of the best size ({converter})", large, best * _GOOD, "Mbit/s")
        if min(self.buffer).amount < theory < max(self.buffer).amount:
            claim = f"the knee is where theory has it, within a factor of 2 ({converter})"
            yield within(claim, knee(reached), theory / 2e6, theory / 5e5, "MB")


def _on_the_papers_sizes(topology: Topology, readings: Readings, converter: str) -> Iterator[Verdict]:
    for family in topology.families:
        small, large = (
            readings.at(family=family, buffer=str(size)).repeated("steady_mbps") for size in (_TOO_SMALL, _LARGE)
        )
        claim = f"0.18 MB cost a fifth or more of what 0.72 MB give ({converter}, {family})"
        yield at_most(claim, small, large * 0.8, "Mbit/s")


def knee(reached: Mapping[float, Repeated]) -> Repeated:
    """The smallest size in MB, of those ``reached`` in their order, that gives _GOOD of the best in a repetition."""

    def of_one(*rates: float) -> float:
        return next(size for size, rate in zip(reached, rates, strict=True) if rate >= _GOOD * max(rates))

    return Repeated.of(of_one, *reached.values())


def _draw_sweeps(throughput: Axes, waited: Axes, readings: Readings, theory: float) -> None:
    over = readings.over("buffer", megabytes)
    for converter in CONVERTERS:
        draw_sweep(throughput, over, "steady_mbps", converter)
        draw_sweep(waited, over, "segments_that_waited", converter, scale=1e-3)
    for axes, name in ((throughput, "payload, Mbit/s"), (waited, "thousand segments that waited")):
        axes.set_xscale("log")
        name_axes(axes, "receive buffer, MB", name, legend=axes is throughput)
        axes.axvline(theory / 1e6, color="#999999", linewidth=1)
