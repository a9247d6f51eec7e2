"""The receive buffer that MPTCP needs, by the largest packet that the links take.

    client ==wired====== gateway ---- server   44 Mbit/s, 8 ms;  every interface on the way has the same MTU,
           ==wireless===                       20 Mbit/s, 15 ms  and a queue of as many bytes

A receive buffer counts memory, and a packet takes about the same whatever is in it (skb->truesize): where packets carry
less, as much payload takes more. Derived: throughput behind slow start by MTU and by the most that the client's buffer
may take; the knee of each MTU, the smallest buffer that reaches 95 % of its best. Expected: 0.48 MB at 1500 bytes (see
the scenario `buffer`), and at smaller ones no more than in proportion to what a packet carries: 1.5 times that at 1000
bytes, as the paper advises ("a proportionate TCP memory extension").
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from experiments.plots import curve, line, name_axes, theory
from experiments.scenarios.buffer import knee, needed
from experiments.scenarios.downloads import FULL_MTU, BufferExperiment, megabytes
from experiments.study.experiment import Buffers, Mtus
from experiments.study.readings import Point, Readings, Repeated, Verdict, at_least, at_most, every
from experiments.testbed.appliance import BufferSize
from experiments.testbed.topology import Topology

_BY = "native"
_HEADERS = 80  # bytes of a packet that are no payload: IPv4, TCP with timestamps, DSS (RFC 8684 section 3.3)
_ROOM = 1.5  # times the proportion: the sizes tried are a step of 1.4 apart


class BufferMtu(BufferExperiment):
    """``mtu``: sizes of packets to try, in bytes."""

    paper = "section 3.4"
    claim = "With smaller packets TCP's memory should be extended in proportion."
    expected = (
        "The smaller the packets, the larger the buffer that is needed, in proportion to what they carry at most."
    )
    quick = {"repeat": 1, "seconds": 3.0, "warm_up": 1.0, "mtu": "1500,1000", "buffer": "0.24MB,0.48MB,0.96MB,1.92MB"}

    mtu: Mtus = (1500, 1280, 1000, 576)
    buffer: Buffers = tuple(BufferSize(1000 * kilobytes) for kilobytes in (240, 340, 480, 680, 960, 1360, 1920, 2700))

    def points(self, topology: Topology) -> list[Point]:
        alone = {"by": [_BY], "link": [topology.links[0].name], "family": ["ipv4"]}
        return every(mtu=self.mtu, buffer=self.buffer, **alone)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        found = knees(readings)
        if full := found.get(FULL_MTU):
            for mtu in (each for each in found if each < FULL_MTU):
                claim = f"packets of {mtu} bytes need no smaller buffer than those of 1500"
                yield at_least(claim, found[mtu], full, "MB")
                claim = f"for packets of {mtu} bytes a buffer in proportion to what they carry is enough"
                yield at_most(claim, found[mtu], full * (_ROOM * _proportion(mtu)), "MB")

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        throughput, least = figure.subplots(1, 2)
        by_mtu = knees(readings)
        throughput.set_xscale("log")
        for mtu, these in readings.over("mtu", int).items():
            curve(throughput, these.over("buffer", megabytes), "steady_mbps", f"{mtu} bytes")
        name_axes(throughput, "receive buffer, MB", "payload, Mbit/s", legend=True)
        line(least, {mtu: knee.estimate for mtu, knee in by_mtu.items()}, "measured", color="black")
        expected = {mtu: needed(topology) * _proportion(mtu) / 1e6 for mtu in by_mtu}
        theory(least, expected, "#999999", "0.48 MB in proportion")
        name_axes(least, "MTU, bytes", "smallest buffer with 95 % of the best, MB", legend=True)


def _proportion(mtu: float) -> float:
    """How many times the packets that as much payload takes, beside full ones."""
    return (FULL_MTU - _HEADERS) / (mtu - _HEADERS)


def knees(readings: Readings) -> dict[float, Repeated]:
    """In MB, by MTU."""
    return {
        mtu: knee({size: each.repeated("steady_mbps") for size, each in these.over("buffer", megabytes).items()})
        for mtu, these in readings.over("mtu", int).items()
    }
