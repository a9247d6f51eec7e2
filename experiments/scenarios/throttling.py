"""What the experiments on throttling have in common: downloads whose first path is held, and what follows."""

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from operator import itemgetter
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.enforcement import watched
from experiments.record import Download
from experiments.scenarios.downloads import RECEIVE_BUFFER, draw_panels, fetched, reading_of
from experiments.study.blueprint import CONVERTERS
from experiments.study.experiment import Experiment
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most, every, exactly
from experiments.testbed.appliance import BufferSize, bound_receive_buffer, policy_over, start_throttler
from experiments.testbed.build import Testbed
from experiments.testbed.node import python
from experiments.testbed.server import random_file
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate, Size

FREE, MIDWAY, ALWAYS, INSTALLED = "never", "midway", "always", "installed"
"""When the first path is held: not at all; from half of the file on, by an operator's command; as soon as another path
has joined; or by a rule that stands before the session and waits for no other path.
"""
HELD, JOINED = "held_after_s", "joined_s"
"""Values: seconds from the request to the hold, and to the join."""

_RULE = "first-path-slow"
_SETTLED = 0.3  # seconds after which what was on its way when the hold came has arrived
_HELD = 1.05  # of the rate that a path is held to, on the wire


class ThrottleExperiment(Experiment):
    """A file of ``size`` for every download; ``rate`` is what the first path is held to.

    ``buffer`` is the most that the client's receive buffer may take.
    """

    quick = {"repeat": 1}
    least_links = 2
    own_axes = RECEIVE_BUFFER

    size: Size = Size(5_000_000)
    rate: PositiveRate = PositiveRate(1_000_000)
    buffer: BufferSize = BufferSize(720_000)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """A download whose first path is held as ``point["held"]`` says.

        Values: ``mbps`` over all; ``subflows`` that there ever were; each path's rate on the wire before and behind the
        hold, ``PATH_before_mbps`` and ``PATH_after_mbps``; HELD; and where the throttler holds by itself JOINED, and
        ``enforcement_ms`` from the join to the hold, which is below 0 where the hold was first.
        """
        file = random_file(self.size.amount, seed=repetition)
        bound_receive_buffer(testbed, self.buffer.amount)
        path = testbed.topology.links[0].name
        text = policy_for(testbed.topology, path, self.rate, point["held"])
        policy = testbed.gateway.write("throttle.toml", text)
        commanded = list[Future[float]]()
        with ExitStack() as stack:
            stack.enter_context(start_throttler(testbed, policy))
            by_itself, installed = point["held"] in (ALWAYS, INSTALLED), point["held"] == INSTALLED
            seen = stack.enter_context(watched(testbed, installed=installed)) if by_itself else None
            pool = stack.enter_context(ThreadPoolExecutor(1))

            def progress(received: int) -> None:
                if point["held"] == MIDWAY and not commanded and received >= file.size / 2:
                    commanded.append(pool.submit(_hold, testbed, self.rate, path))

            download = fetched(testbed, point, file, progress=progress)
            enforcement = seen() if seen else None
        moments = {}
        if enforcement:
            moments = {JOINED: enforcement.join_ack - download.started, HELD: enforcement.first_held - download.started}
            moments |= {"enforcement_ms": enforcement.milliseconds}
        if commanded:
            moments = {HELD: commanded[0].result() - download.started}
        values = _values(download, testbed.topology, moments.get(HELD, 0.0))
        return reading_of(download, point, repetition, values | moments)

    def on_hold(self, topology: Topology, readings: Readings, who: str) -> Iterator[Verdict]:
        """What holds of every download behind its hold: the first path is slow, others carry most, nothing
        reconnected.
        """
        first, *others = topology.links
        slow, bound = readings.repeated(f"{first.name}_after_mbps"), _HELD * self.rate.amount / 1e6
        yield at_most(f"{first.name} is held to its rate, on the wire ({who})", slow, bound, "Mbit/s")
        carried = readings.each(lambda reading: sum(reading.values[f"{link.name}_after_mbps"] for link in others))
        yield at_least(f"the load moves: others carry more meanwhile, on the wire ({who})", carried, slow, "Mbit/s")
        counts = sorted({int(count) for count in readings.values("subflows")})
        same = str(len(topology.links))
        yield exactly(f"no subflow was lost or made anew ({who})", ", ".join(map(str, counts)), same)


class HeldDownload(ThrottleExperiment):
    """Downloads by each converter and family, whose first path is ``held`` at that time.

    The plot, with a ``title``, has a panel for each converter by IPv4, with a line at each of the ``moments``: HELD,
    JOINED.
    """

    over = "slow.toml"
    held: ClassVar[str]
    title: ClassVar[str]
    moments: ClassVar[Sequence[str]] = (JOINED, HELD)

    @abstractmethod
    def on_first_path(self, path: str, readings: Readings, who: str) -> Verdict:
        """The verdict of its own, beside those on every hold."""

    def points(self, topology: Topology) -> list[Point]:
        return every(by=CONVERTERS, held=[self.held], link=[topology.links[0].name], family=topology.families)

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for point in sorted(self.points(topology), key=itemgetter("family")):
            who, these = f"{point['by']}, {point['family']}", readings.at(**point)
            yield self.on_first_path(point["link"], these, who)
            yield from self.on_hold(topology, these, who)

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        titled = {f"{self.title}, {name}": readings.at(by=name, family="ipv4") for name in CONVERTERS}
        for axes, each in zip(draw_panels(figure, topology, titled), titled.values(), strict=True):
            _mark(axes, next(iter(each)).values, self.moments)


def _values(download: Download, topology: Topology, after: float) -> dict[str, float]:
    if after + _SETTLED >= download.seconds:
        over = f"the download was over after {download.seconds:.1f} s, {after:.1f} s of them before the hold"
        raise CommandError(Exit.USAGE, f"{over}: accepted: a larger size")
    values = {"seconds": download.seconds, "mbps": download.mbps, "subflows": float(download.subflows), HELD: after}
    for link in topology.links:
        values[f"{link.name}_bytes"] = float(download.samples[-1].by_path().get(link.name, 0))
        values[f"{link.name}_before_mbps"] = download.wire_mbps(link.name, before=after) if after > 0 else 0.0
        values[f"{link.name}_after_mbps"] = download.wire_mbps(link.name, after=after + _SETTLED)
    return values


def policy_for(topology: Topology, path: str, rate: PositiveRate, held: str) -> str:
    """A policy with one rule, which holds ``path`` to ``rate`` at the time that ``held`` says, or counts only."""
    least, dry = 1 if held == INSTALLED else 2, held not in (ALWAYS, INSTALLED)
    rule = {"name": _RULE, "min_subflows": least, "path": path, "rate": str(rate), "dry_run": dry}
    return policy_over((link.name for link in topology.links), rule)


def _hold(testbed: Testbed, rate: PositiveRate, path: str) -> float:
    """Tell the throttler, as an operator would; returns the Unix time of its answer."""
    rule = (_RULE, f"path={path}", "min_subflows=2", f"rate={rate}")
    testbed.gateway.run(*python("throttler", "set", *rule))
    return time.time()


_LINES = {JOINED: ":", HELD: "--"}


def _mark(axes: Axes, values: Mapping[str, float], moments: Sequence[str]) -> None:
    for moment in moments:
        axes.axvline(values[moment], color="black", linestyle=_LINES[moment], linewidth=1)
    if "enforcement_ms" in values:
        joined, later = 1000 * values[JOINED], values["enforcement_ms"]
        axes.set_xlabel(f"join (dotted) at {joined:.1f} ms, hold (dashed) {later:+.1f} ms from it", fontsize=8)
