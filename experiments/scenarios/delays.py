"""What a receiver has to hold when one path is longer than the other: memory by the difference of their delays.

    client ==wired====== gateway ---- server   40 Mbit/s, 10 ms
           ==wireless===                       20 Mbit/s, 10 ms and the difference; queues of 5 ms each

What comes by the shorter path waits until the longer one has filled the gap before it. Derived: what waits in the
client's socket, out of order, as it is in memory (SO_MEMINFO, SK_MEMINFO_RMEM_ALLOC), each time when all that is in
order has been read: the mean behind slow start; segments that waited (MPTcpExtOFOQueue). The paper expects close to
nothing where the delays are alike. Expected here: no more than what the scheduler gives a subflow at a time, and with
the difference about what the shorter path brings within it, one way: 40 Mbit/s in 40 ms are 200 kB, and more in memory,
as a packet of 1,500 bytes takes over 2,000.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from experiments.plots import name_axes
from experiments.scenarios.downloads import TimedExperiment, draw_sweep
from experiments.study.blueprint import TestbedBlueprint
from experiments.study.experiment import Durations
from experiments.study.readings import Point, Readings, Verdict, at_least, at_most, every
from experiments.testbed.topology import NO_DELAY, Profile, Topology
from tributary.settings.units import Duration

_ALIKE = Duration(0)
_HARDLY = 0.25  # of what the largest difference takes
_TWO_BURSTS = 2 * 47 * 2.304  # kB of memory: MPTCP_SEND_BURST_SIZE in whole packets of 1,420 bytes, which take 2,304
_BURSTS = (
    "upstream's scheduler gives a subflow up to 64 kB at a time (MPTCP_SEND_BURST_SIZE in net/mptcp/protocol.c): two "
    "such stretches arrive side by side, and the later one waits for the earlier"
)
_IN_MEMORY = 0.5  # of what the shorter path brings meanwhile, at least: it is not full all of the time


class Delays(TimedExperiment):
    """``difference``: of both round-trip times, by which the second link's is longer."""

    paper = "section 3.3"
    claim = "Over paths of commensurate delays a receiver needs close to no memory for what comes out of order."
    expected = "A burst of the scheduler with delays that are alike; else what the shorter path brings meanwhile."
    over = "delays.toml"
    quick = {"repeat": 1, "seconds": 4.0, "warm_up": 1.5, "difference": "0ms,80ms"}

    own_axes = {"wireless.delay": "difference"}

    difference: Durations = tuple(Duration(1000 * milliseconds) for milliseconds in (0, 10, 20, 40, 80))

    def points(self, topology: Topology) -> list[Point]:
        differences = sorted(self.difference, key=lambda duration: duration.amount)
        return every(difference=differences, by=["native"], link=[topology.links[0].name], family=["ipv4"])

    def blueprint(self, profile: Profile, point: Point) -> TestbedBlueprint:
        """The second link is as long as the first, and half of the difference longer each way."""
        (first, shorter), (second, longer) = list(profile.links.items())[:2]
        each_way = (shorter.delay or NO_DELAY).amount + Duration.parse(point["difference"]).amount // 2
        links = {first: shorter, second: longer.model_copy(update={"delay": Duration(each_way)})}
        return TestbedBlueprint(Profile(links=links))

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        waiting = {each: readings.at(difference=str(each)).repeated("waiting_kb") for each in self.difference}
        largest = max(self.difference, key=lambda duration: duration.amount)
        if largest == _ALIKE:
            return
        brought = topology.links[0].down.rate.amount * largest.seconds / 2 / 8 / 1000
        claim = f"with a difference of {largest} what the shorter path brings meanwhile waits in the client"
        yield at_least(claim, waiting[largest], _IN_MEMORY * brought, "kB")
        if alike := waiting.get(_ALIKE):
            claim = "with delays that are alike hardly anything waits, beside that"
            yield at_most(claim, alike, waiting[largest] * _HARDLY, "kB").or_differs(_BURSTS)
            claim = "with delays that are alike no more than two bursts of the scheduler wait"
            yield at_most(claim, alike, _TWO_BURSTS, "kB")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        over = readings.over("difference", lambda text: 1000 * Duration.parse(text).seconds)
        shown = {"waiting_kb": "kB of memory that wait out of order (mean)", "steady_mbps": "payload, Mbit/s"}
        for axes, (value, name) in zip(figure.subplots(1, 2), shown.items(), strict=True):
            draw_sweep(axes, over, value, "native")
            name_axes(axes, "difference of the round-trip times, ms", name)
