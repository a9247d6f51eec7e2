"""What the conversion costs in time: how long packets stay in the converter.

    client ==wired== gateway ---- server       100 Mbit/s, 10 ms; one connection at a time, over this link alone
                    ^       ^
                    both watched by one packet socket, so that the kernel's one clock stamps all

Derived from the kernel's timestamps on both sides of the gateway: the SYN's conversion (from the client's SYN to the
SYN to the server, without the round trip in which the client answers and sends its request), a first request's, a later
request's on the same connection, and an answer's. Expected: a few wake-ups of a process, tens of microseconds each, for
the native converter; Squid parses a request, asks its access lists and begins a transaction: several times as long.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median, quantiles

from matplotlib.figure import Figure

from experiments.plots import name_axes
from experiments.study.blueprint import CONVERTERS
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, at_most, every
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from experiments.testbed.server import start_origin
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError, Exit

_PORT = 8080
_KINDS = {"own_syn": "SYN", "first_data": "first request", "data": "later request", "reply": "answer"}
ONE_AT_A_TIME = ("--clients", "1", "--pause", "2", "--mptcp")
"""Arguments of tributary-load for what is watched."""
Delays = dict[str, list[float]]
"""Microseconds of every packet by its kind, as experiments.probes.conversion tells them."""
_MOST = {"native": 1.0, "squid": 5.0}  # milliseconds, of the median SYN


class ConversionDelay(Experiment):
    """``seconds``: for how long to open new connections, and again to use one that is kept."""

    paper = "table 1"
    claim = "The converter delays a connection's SYN and its data by little."
    expected = "Tens of microseconds for each packet by the native converter, several times that by Squid."
    quick = {"repeat": 1, "seconds": 3.0}

    seconds: Seconds = 8.0

    def points(self, topology: Topology) -> list[Point]:
        return every(by=CONVERTERS, family=topology.families)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Values of each kind: ``KIND_p50_us``, ``KIND_p95_us``, ``KIND_p99_us``; ``KIND_count`` says how many."""
        # A join would take requests to the other link, where nobody watches.
        testbed.client.ip("mptcp", "endpoint", "flush")
        with (
            start_origin(testbed.server, f"[::]:{_PORT}"),
            watched(testbed.gateway, testbed.topology.links[0].name, "core") as seen,
        ):
            for command in (["connect", "--fresh"], ["requests"]):
                testbed.client.run("timeout", "60", *native.load(*command), *self._route(testbed, point))
            told = seen()
        return Reading(point, repetition, dict(_values(told)))

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for family in topology.families:
            yield from _verdicts(readings.at(family=family), family)

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        axes = figure.subplots()
        colours = {"squid": "#999999", "native": "black"}
        for number, (converter, colour) in enumerate(colours.items()):
            these = readings.at(by=converter, family="ipv4")
            for place, kind in enumerate(_KINDS):
                middle = these.estimate(f"{kind}_p50_us").mean
                tail = these.estimate(f"{kind}_p99_us").mean
                at = place + 0.36 * (number - 0.5)
                label = converter if place == 0 else None
                axes.bar(at, middle, width=0.32, color=colour, label=label, yerr=[[0], [tail - middle]], capsize=4)
        axes.set_yscale("log")
        axes.set_xticks(range(len(_KINDS)), list(_KINDS.values()))
        name_axes(axes, "", "µs in the converter (bar: median, whisker: 99th percentile)", "y", legend=True)

    def _route(self, testbed: Testbed, point: Point) -> list[str]:
        topology, link = testbed.topology, testbed.topology.links[0]
        port = CONVERTERS[point["by"]]
        server, proxy, source = f"{topology.SERVER4}:{_PORT}", f"{topology.PROXY4}:{port}", str(link.client4)
        if point["family"] == "ipv6":
            server, proxy, source = f"[{topology.SERVER6}]:{_PORT}", f"[{topology.PROXY6}]:{port}", str(link.client6)
        route = ["--source", source, "--to", server, "--via-http-proxy", proxy]
        return [*route, *ONE_AT_A_TIME, "--seconds", str(self.seconds)]


def _values(told: Delays) -> Iterator[tuple[str, float]]:
    for kind in _KINDS:
        times = told[kind]
        if len(times) < 20:
            raise CommandError(
                Exit.WRONG_RESULT, f"{len(times)} of {kind} were seen on both sides: at least 20 are needed"
            )
        hundredths = quantiles(times, n=100, method="inclusive")
        yield f"{kind}_p50_us", median(times)
        yield f"{kind}_p95_us", hundredths[94]
        yield f"{kind}_p99_us", hundredths[98]
        yield f"{kind}_count", float(len(times))


def _verdicts(readings: Readings, family: str) -> Iterator[Verdict]:
    for converter, most in _MOST.items():
        taken = readings.at(by=converter).estimate("own_syn_p50_us").scaled(1e-3)
        yield at_most(f"a SYN is converted in {most:g} ms, in the median ({converter}, {family})", taken, most, "ms")
        data = readings.at(by=converter).estimate("data_p50_us").scaled(1e-3)
        yield at_most(f"a request is converted in 1 ms, in the median ({converter}, {family})", data, 1.0, "ms")
    ours, squid = (readings.at(by=each).repeated("own_syn_p50_us") for each in ("native", "squid"))
    yield at_most(f"the native converter takes no longer over a SYN than Squid ({family})", ours, squid, "µs")


@contextmanager
def watched(gateway: Node, client_side: str, server_side: str) -> Iterator[Callable[[], Delays]]:
    """Watch both interfaces while the block runs; the function given ends that, and says what was seen.

    It raises CommandError (exit 1) if packets were lost to the probe.
    """
    with gateway.probe("conversion", client_side, server_side) as probe:

        def seen() -> Delays:
            probe.stop(30)
            told = probe.report()
            if lost := told.pop("lost"):
                raise CommandError(Exit.WRONG_RESULT, f"the probe lost {lost} packets: no figure can be trusted")
            return dict(told)

        yield seen
