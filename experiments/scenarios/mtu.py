"""The largest packet that the links take: what small ones cost MPTCP, and what they cost legacy TCP.

    client ==wired====== gateway ---- server   44 Mbit/s, 8 ms;  every interface on the way has the same MTU,
           ==wireless===                       20 Mbit/s, 15 ms  and a queue of as many bytes

Derived: throughput, packets and processor time by MTU, and what is lost from 1500 to 1000 bytes. Expected: of an IPv4
packet legacy TCP uses all but 52 bytes (20 for IP, 20 for TCP, 12 for timestamps), MPTCP all but 80 (28 for its DSS
option, RFC 8684 section 3.3). So the one loses 1.8 % and the other 2.8 %. Processor time grows with the packets.

The paper's client may take 0.72 MB, and the paper says that MPTCP then loses more than legacy TCP does, which a larger
buffer mends. The reason on today's Linux: a receive buffer counts memory, and a packet takes about the same whatever is
in it (skb->truesize), so that with packets of 1000 bytes the window falls by a third (tcp_win_from_space() in
include/net/tcp.h). MPTCP needs most of 0.72 MB (see the scenario `buffer`), legacy TCP over one link a fraction of it.
With 4 MB the headers are all that is lost.
"""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.plots import name_axes
from experiments.scenarios.downloads import (
    FULL_MTU,
    LEGACY,
    BufferExperiment,
    draw_sweep,
    megabytes,
    reading_of,
    values_of,
)
from experiments.study.blueprint import CONVERTERS
from experiments.study.experiment import Buffers, Mtus
from experiments.study.readings import Estimate, Point, Reading, Readings, Repeated, Verdict, at_least, at_most, every
from experiments.testbed.appliance import BufferSize, bound_receive_buffer
from experiments.testbed.build import Testbed
from experiments.testbed.topology import IPV6_LEAST_MTU, Topology
from experiments.testbed.usage import machine_seconds, packets_received, process_seconds

_SMALL = 1000
_MARGIN = 3.0  # percentage points that MPTCP may lose more than legacy TCP


class Mtu(BufferExperiment):
    """``mtu``: sizes to try, in bytes; ``buffer``: the most that the client may take, the paper's and a larger one."""

    paper = "figure 5"
    claim = "With 0.72 MB smaller packets cost MPTCP more than legacy TCP; a larger buffer mends it."
    expected = "1000 bytes instead of 1500 cost far more than the headers' 2.8 % with 0.72 MB, legacy TCP 1.8 %."
    quick = {"repeat": 1, "seconds": 2.5, "warm_up": 1.0, "mtu": "9000,1500,1000"}
    least_links = 2
    real_links = True
    any_links = True

    mtu: Mtus = (9000, 1500, 1280, 1000, 576)
    buffer: Buffers = (BufferSize(720_000), BufferSize(4_000_000))

    def points(self, topology: Topology) -> list[Point]:
        """IPv6 only with packets that it allows; the small buffer is for IPv4 alone."""
        by, first = (LEGACY, *CONVERTERS), [topology.links[0].name]
        points = every(mtu=self.mtu, buffer=self.buffer, by=by, link=first, family=topology.families)
        by_ipv6 = {"family": "ipv6", "buffer": str(max(self.buffer))}
        return [
            point
            for point in points
            if point["family"] == "ipv4" or (by_ipv6.items() <= point.items() and int(point["mtu"]) >= IPV6_LEAST_MTU)
        ]

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        client, gateway, links = testbed.client, testbed.gateway, [link.name for link in testbed.topology.links]
        bound_receive_buffer(testbed, BufferSize.parse(point["buffer"]).amount)
        packets, converter = packets_received(client, links), process_seconds(gateway)
        machine = machine_seconds(gateway)
        download = self.download(testbed, point, repetition)
        gigabytes = download.size / 1e9
        costs = {
            "packets_per_mb": (packets_received(client, links) - packets) / gigabytes / 1000,
            "converter_s_per_gb": (process_seconds(gateway) - converter) / gigabytes,
            "machine_s_per_gb": (machine_seconds(gateway) - machine) / gigabytes,
        }
        return reading_of(download, point, repetition, values_of(download, self.warm_up) | costs)

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for converter in CONVERTERS:
            if {FULL_MTU, _SMALL} <= set(self.mtu):
                yield from self._on_small_packets(readings.at(family="ipv4"), converter)
            yield self._on_every_size(readings, topology, converter)

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        panels: list[Axes] = list(figure.subplots(1, 3))
        by_ipv4 = readings.at(family="ipv4")
        (_, ample), *smaller = sorted(by_ipv4.over("buffer", megabytes).items(), reverse=True)
        shown = {"steady_mbps": "payload, Mbit/s", "packets_per_mb": "packets received per MB"}
        shown |= {"machine_s_per_gb": "processor seconds per GB, whole machine"}
        for axes, (value, name) in zip(panels, shown.items(), strict=True):
            for by in (LEGACY, *CONVERTERS):
                draw_sweep(axes, ample.over("mtu"), value, by)
            for _, scarce in smaller[-1:]:
                # A run from before legacy TCP was measured with both buffers has none of it.
                for by in (each for each in (LEGACY, "native") if list(scarce.at(by=each))):
                    draw_sweep(axes, scarce.over("mtu"), value, by, about=f", {next(iter(scarce)).point['buffer']}")
            name_axes(axes, y=name, legend=axes is panels[0])
        figure.supxlabel("MTU, bytes")

    def _on_small_packets(self, readings: Readings, converter: str) -> Iterator[Verdict]:
        small, ample = str(min(self.buffer)), str(max(self.buffer))
        legacy, ours = (readings.at(by=by) for by in (LEGACY, converter))
        mended = _lost(ours.at(buffer=ample))
        headers = _lost(legacy.at(buffer=ample)) + _MARGIN
        claim = f"with {ample} MPTCP loses at most 3 points more than legacy TCP from 1500 to 1000 bytes ({converter})"
        yield at_most(claim, mended, headers, "%")
        if small != ample:
            starved, beside = _lost(ours.at(buffer=small)), _lost(legacy.at(buffer=small))
            if beside.numbers:
                yield at_least(f"with {small} MPTCP loses more than legacy TCP ({converter})", starved, beside, "%")
            yield at_most(f"the larger buffer mends it: with {ample} less is lost ({converter})", mended, starved, "%")

    def _on_every_size(self, readings: Readings, topology: Topology, converter: str) -> Verdict:
        """The worst of all sizes: how many times what legacy TCP gets over the better link."""
        found = [
            (_times_legacy(readings, point, max(self.buffer)), f"{point['mtu']}, {point['buffer']}, {point['family']}")
            for point in self.points(topology)
            if point["by"] == converter
        ]
        least, worst = min(found, key=lambda each: each[0].mean)
        claim = f"both paths beat the better one with packets of every size ({converter}; worst: {worst})"
        return at_least(claim, least, 1, "times")


def _lost(readings: Readings) -> Repeated:
    """Percent of the throughput with full packets, by repetition."""
    both = (readings.at(mtu=str(mtu)).repeated("steady_mbps") for mtu in (FULL_MTU, _SMALL))
    return Repeated.of(lambda full, small: 100 * (1 - small / full), *both)


def _times_legacy(readings: Readings, point: Point, ample: BufferSize) -> Estimate:
    """How many times what legacy TCP gets over the better link with the same packets and an ``ample`` buffer."""
    legacy = {**point, "by": LEGACY, "buffer": str(ample)}
    ours, theirs = (readings.at(**each).repeated("steady_mbps") for each in (point, legacy))
    return (ours / theirs).estimate
