"""Two subflows of one session and a connection of legacy TCP through one bottleneck: who gets what.

    client ==one link, two addresses== gateway ---- server      20 Mbit/s, 20 ms, a queue of 50 packets

    MPTCP through the native converter, with one subflow or two     both begin at once, and take the link together
    legacy TCP from the server

Coupled congestion control is for this (RFC 6356, goal 2: a session takes no more of a shared bottleneck than one
connection of TCP). The paper's kernel had it, upstream Linux does not: each subflow is controlled by itself.

Derived: both rates behind slow start, and the session's share of their sum. Expected: with one subflow a half, with two
two thirds, as two connections beside one have. Where a kernel couples its subflows, two of them have a half.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import colours_of, paths
from experiments.scenarios.downloads import LEGACY, TimedExperiment, fetched, file_lasting, values_of
from experiments.study.experiment import Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, at_most, every, within
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Topology
from tributary.daemons.text import plural

_BY = "native"
_SUBFLOWS = ("1", "2")
_EVEN, _EVEN_WITHIN = 50.0, 10.0  # percent of both, and points
_TWO_OF_THREE, _NEAR = 66.7, 12.0
_NO_MORE = (_EVEN + _TWO_OF_THREE) / 2
_MARGIN = 1.5  # times what is planned that the files last: slow start of the one gives time to the other
_NOT_COUPLED = "upstream Linux does not couple the congestion controls of a session's subflows (RFC 6356)"
_NEXT = 1  # beyond the client's first address on the link


class SharedBottleneck(TimedExperiment):
    """Both downloads break off after ``seconds``; their rates count from ``warm_up`` seconds on."""

    paper = "figure 3, why"
    claim = "A session with two subflows through one bottleneck leaves half of it to a connection of legacy TCP."
    expected = "Two thirds for the session, since upstream Linux does not couple its subflows' congestion controls."
    over = "bottleneck.toml"
    quick = {"repeat": 1, "seconds": 20.0, "warm_up": 5.0}
    any_links = False

    seconds: Seconds = 40.0
    warm_up: float = Field(default=8.0, ge=0, description="a number of seconds")

    def points(self, topology: Topology) -> list[Point]:
        return every(subflows=_SUBFLOWS, by=[_BY], link=[topology.links[0].name], family=["ipv4"])

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Values: ``session_mbps`` and ``legacy_mbps`` behind the warm-up, the session's ``share_percent``."""
        _allow(testbed, int(point["subflows"]))
        file = file_lasting(testbed.topology, _MARGIN * self.seconds, seed=repetition)
        points = {"session": point, LEGACY: {**point, "by": LEGACY}}
        with ThreadPoolExecutor(len(points)) as pool:
            running = {name: pool.submit(fetched, testbed, each, file, self.seconds) for name, each in points.items()}
            downloads = {name: each.result() for name, each in running.items()}
        rates = {f"{name}_mbps": values_of(each, self.warm_up)["steady_mbps"] for name, each in downloads.items()}
        session = downloads["session"]
        values = {
            "seconds": session.seconds,
            **rates,
            "share_percent": 100 * rates["session_mbps"] / sum(rates.values()),
            "subflows": float(session.subflows),
        }
        # Of all subflows together, which share one path.
        series = {name: next(iter(each.series().values())) for name, each in downloads.items()}
        return Reading(point, repetition, values, series, sending=session.sending)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        alone, both = (readings.at(subflows=number).estimate("share_percent") for number in _SUBFLOWS)
        low, high = _EVEN - _EVEN_WITHIN, _EVEN + _EVEN_WITHIN
        yield within("a session of one subflow has as much as legacy TCP beside it", alone, low, high, "% of both")
        claim = "a session of two subflows has no more than legacy TCP, as coupled congestion control would have it"
        coupled = at_most(claim, both, _NO_MORE, "% of both").or_differs(_NOT_COUPLED)
        yield coupled
        if not coupled.holds:
            low, high = _TWO_OF_THREE - _NEAR, _TWO_OF_THREE + _NEAR
            yield within("it has what two connections have beside one", both, low, high, "% of both")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        names, shown = {"session": "MPTCP", LEGACY: "legacy TCP"}, {}
        for number in _SUBFLOWS:
            first = next(iter(readings.at(subflows=number)))
            title = f"{plural(int(number), 'subflow')}: {first.values['share_percent']:.0f} % for MPTCP"
            shown[title] = replace(first, series={names.get(name, name): each for name, each in first.series.items()})
        paths(figure, colours_of(names.values()), shown)


def _allow(testbed: Testbed, subflows: int) -> None:
    """Let sessions have so many, the second from another address of the client on the same link."""
    client, link = testbed.client, testbed.topology.links[0]
    second = str(link.client4 + _NEXT)
    client.ip("mptcp", "endpoint", "flush")
    client.ip("address", "replace", f"{second}/24", "dev", link.name)
    if subflows > 1:
        client.ip("mptcp", "endpoint", "add", second, "dev", link.name, "subflow")
