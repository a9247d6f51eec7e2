"""From a native converter's start to its first connection, with less and less memory and processor.

Nothing but the converter stands at the gateway. Derived: milliseconds from fork(2) until its port takes a connection,
medians of several starts, in a control group that allows so much memory, or such a share of one processor (cgroups(7));
of a start in such a group the shell that enters it is a part, 1 to 2 ms. Expected: it does the same work with any of
these limits. 6 MB are as much as it takes when it listens; a share of a processor makes it wait for its next turn, a
hundredth of a second or more, once it has used up one.

The paper's 12 ms and 6 MB are a virtual machine's, with its operating system. What starts here is a process on a kernel
that runs: to keep within 12 ms is asked of it, and is no comparison of the two. Nor is a share of a processor a slow
one: a share makes it stand still for a while, a slow clock does not.
"""

from collections.abc import Iterator
from statistics import median

from matplotlib.figure import Figure

from experiments.bench.converter.contenders import CONTENDERS
from experiments.bench.parts import NATIVE
from experiments.plots import curve, name_axes
from experiments.scenarios.cabled import cabled
from experiments.study.experiment import Count, Experiment, Shares, Sizes
from experiments.study.metrics import Metric
from experiments.study.plot import resize
from experiments.study.readings import Point, Reading, Readings, Verdict, at_most
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENTS, LISTENER
from experiments.testbed.cgroup import limited
from experiments.testbed.converter import command, settings
from experiments.testbed.topology import Topology
from experiments.testbed.usage import resident
from tributary.settings.units import Share, Size

UNLIMITED = "unlimited"
LISTENS = f"{LISTENER}:3128"
_MOST = 12.0  # milliseconds


class AccelerationStart(Experiment):
    """``memory`` and ``processor``: limits to try, one at a time; ``count``: of starts with each."""

    paper = "Miniproxy, figure 3"
    claim = "A proxy starts in 12 ms, with 6 MB, as a virtual machine with its operating system."
    expected = "A process takes a tenth of that, also with little memory; with a share of a processor it waits."
    over = "long-path.toml"
    quick = {"repeat": 1, "count": 5, "memory": "6MB,64MB", "processor": "10%,100%"}
    ground = cabled()

    memory: Sizes = tuple(Size(1_000_000 * megabytes) for megabytes in (6, 8, 16, 64))
    processor: Shares = tuple(Share(10_000 * percent) for percent in (5, 10, 25, 50, 100))
    count: Count = 30

    def points(self, _topology: Topology) -> list[Point]:
        return [
            {"memory": UNLIMITED, "processor": UNLIMITED},
            *({"memory": str(size), "processor": UNLIMITED} for size in self.memory),
            *({"memory": UNLIMITED, "processor": str(share)} for share in self.processor),
        ]

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """``start_ms``, a median; and ``rss_mb``, resident when it listens, without limits."""
        taken = start_milliseconds(testbed, point, self.count)
        values = {"start_ms": median(taken)}
        if set(point.values()) == {UNLIMITED}:
            with CONTENDERS[NATIVE].running(testbed) as process:
                values["rss_mb"] = resident(process.popen.pid) / 1e6
        return Reading(point, repetition, values, samples={"start_ms": taken})

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for limit in self.points(topology)[: 1 + len(self.memory)]:
            claim = "it takes a connection in time" + (
                "" if limit["memory"] == UNLIMITED else f", with {limit['memory']}"
            )
            yield at_most(claim, readings.at(**limit).estimate("start_ms"), _MOST, "ms")

    def metrics(self, readings: Readings) -> list[Metric]:
        """``start_ms`` as it is, ``start_ms_memory_N`` with N MB and ``start_ms_processor_N`` with N % of one
        processor, by a control group; and ``rss_mb``.
        """
        by_limit = {tuple(reading.point.items()): readings.at(**reading.point) for reading in readings}
        starts = [Metric(_name(dict(limit)), these.samples("start_ms"), "ms") for limit, these in by_limit.items()]
        return [Metric("rss_mb", readings.values("rss_mb")), *starts]

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        resize(figure, 10, 4)
        unlimited = readings.at(memory=UNLIMITED, processor=UNLIMITED).estimate("start_ms").mean
        panels = figure.subplots(1, 2)
        kinds = (("memory", Size, "memory"), ("processor", Share, "share of a processor"))
        for axes, (limit, kind, title) in zip(panels, kinds, strict=True):
            found = {reading.point[limit] for reading in readings} - {UNLIMITED}
            points = [str(each) for each in sorted(map(kind.parse, found), key=lambda each: each.amount)]
            taken = {place: readings.at(**{limit: each}) for place, each in enumerate(points)}
            curve(axes, taken, "start_ms", color="black")
            axes.axhline(unlimited, color="#777777", linestyle=":", linewidth=1)
            axes.set_xticks(list(taken), points)
            name_axes(axes, f"{title} (dotted: without limits)", "ms until the first connection", "y")


def start_milliseconds(testbed: Testbed, limit: Point, count: int) -> tuple[float, ...]:
    """Of so many starts; raises CommandError if the system does not let itself be limited, or the converter fails."""
    memory = None if limit["memory"] == UNLIMITED else Size.parse(limit["memory"]).amount
    processor = None if limit["processor"] == UNLIMITED else Share.parse(limit["processor"]).fraction
    with limited(f"tributary-start-{testbed.name}", memory, processor) as wrapper:
        return cables.starts(testbed, LISTENS, count, [*wrapper, *converter(testbed)])


def converter(testbed: Testbed) -> list[str]:
    """What starts a converter that listens at LISTENS."""
    gateway = testbed.gateway
    text = settings(gateway, "starting", (CLIENTS,), {"kind": "http", "address": LISTENS})
    return command(gateway, "starting", text)


def _name(limit: Point) -> str:
    named = (f"_{what}_{amount.rstrip('MB%')}" for what, amount in limit.items() if amount != UNLIMITED)
    return "start_ms" + "".join(named)
