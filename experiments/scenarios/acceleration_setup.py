"""How long connections take to stand by way of one native converter, beside many and many at once.

    client --- gateway --- server      plain cables: what a connection takes is the work on it

The converter is transparent and forwards SYNs at once. Derived: from connect(2) until the server's first byte is there,
medians: of connections one after the other while so many others stand, and of so many that begin in the same moment;
and both without a converter. Expected: beside others a connection takes no longer than alone, since nothing in the
kernel or in the converter is looked up in a list. Of those that begin together each waits for the processors' work on
all of them, that of client and server among it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import curve, name_axes
from experiments.scenarios.cabled import cables_with
from experiments.study.experiment import Experiment, Several
from experiments.study.metrics import Metric
from experiments.study.readings import Point, Reading, Readings, Verdict, at_most
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, CLIENTS, ORIGIN
from experiments.testbed.chain import PORT, intercept
from experiments.testbed.converter import settings, start
from experiments.testbed.node import Process
from experiments.testbed.topology import Topology

CONVERTER, NOBODY = "converter", "nobody"
_PAPERS = 230
_MOST = 3.0  # milliseconds, beside as many as in the paper
_FLAT = 2.0  # times what it takes beside the fewest
_SPARE = 100
"""Connections that the converter takes beyond those that are asked for: the one that is timed, and some that close."""


@contextmanager
def _intercepting(testbed: Testbed) -> Iterator[Testbed]:
    """With a gateway that has what comes from the client taken over; as long as nobody listens, it is a router."""
    intercept(testbed.gateway, CLIENT_SIDE)
    yield testbed


class AccelerationSetup(Experiment):
    """``connections``: how many others stand, or begin in the same moment."""

    paper = "Miniproxy, table 1"
    claim = "A connection stands in milliseconds, also while 230 others are set up."
    expected = "Beside others no longer than alone; at once, the processors' work on all of them."
    over = "long-path.toml"
    quick = {"repeat": 1, "connections": "30,230"}
    ground = cables_with(_intercepting)

    connections: Several[Annotated[int, Field(ge=1, le=8000, strict=False)]] = Field(
        default=(30, 80, 130, 180, 230, 1000, 5000),
        description="numbers from 1 to 8000 with commas between them, such as '30,230'",
    )

    def points(self, _topology: Topology) -> list[Point]:
        return [{"connections": str(each), "by": by} for by in (CONVERTER, NOBODY) for each in self.connections]

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Medians to the first byte: ``beside_ms`` so many others that stand, ``at_once_ms`` of so many."""
        most = max(self.connections) + _SPARE
        with transparent(testbed, most) if point["by"] == CONVERTER else nullcontext():
            told = cables.load(testbed, "setup", "--to", ORIGIN, "--connections", point["connections"])
        answered = {f"{how}_ms": told[how]["answered"]["p50_us"] / 1000 for how in ("beside", "at_once")}
        return Reading(point, repetition, answered)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        through = readings.at(by=CONVERTER)
        beside = {each: through.at(connections=str(each)).repeated("beside_ms") for each in self.connections}
        fewest, most = min(beside), max(beside)
        if _PAPERS in beside:
            yield at_most(f"a connection stands beside {_PAPERS} others in time", beside[_PAPERS], _MOST, "ms")
        if most > fewest:
            claim = f"beside {most} it takes no more than twice the time that it takes beside {fewest}"
            yield at_most(claim, beside[most], beside[fewest] * _FLAT, "ms")

    def metrics(self, readings: Readings) -> list[Metric]:
        """``setup_ms_N``: medians, from connect(2) until the server's first byte is there, of connections one after the
        other while N others stand. ``setup_at_once_ms_N``: of N that begin in the same moment; the last one waits for
        the processor's work on all.
        """
        return [
            Metric(f"{name}_{connections}", through.values(value))
            for connections, through in readings.at(by=CONVERTER).over("connections", int).items()
            for name, value in (("setup_ms", "beside_ms"), ("setup_at_once_ms", "at_once_ms"))
        ]

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        axes = figure.subplots()
        axes.set_yscale("log")
        for by, colour, who in ((CONVERTER, "black", "through the converter"), (NOBODY, "#777777", "without it")):
            others = readings.at(by=by).over("connections")
            for how, style, marker in (("beside", "-", "o"), ("at_once", "--", "s")):
                label = f"{how.replace('_', ' ')}, {who}"
                curve(axes, others, f"{how}_ms", label, color=colour, linestyle=style, marker=marker)
        name_axes(axes, "other connections", "ms until a connection stands", legend=True, log=[*others])


def transparent(testbed: Testbed, most: int) -> Process:
    """A converter at the gateway that takes over up to ``most`` connections of the client to the origin; it has to
    intercept() them. One that has not as many open files says so, and does not start.
    """
    gateway, limit = testbed.gateway, {"connections": most}
    listener = {"kind": "transparent", "address": f"[::]:{PORT}", "intercept": "tproxy", "early_syn": True}
    limits = {"limits": limit | {"connections_per_client": most}}
    limits |= {"early_syn": limit | {"per_client": most, "per_server": most}}
    return start(gateway, "standing", settings(gateway, "standing", (CLIENTS,), listener, **limits))
