"""What the experiments on throttling have in common: downloads whose first path is held, and what follows."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pydantic import Field

from experiments.record import Download
from experiments.scenarios.downloads import fetched
from experiments.study.blueprint import CONVERTERS, StandingTestbed
from experiments.study.readings import Estimate, Point, Reading, Readings, Verdict, at_least, at_most
from experiments.study.scenario import Options
from experiments.testbed.appliance import bound_receive_buffer, start_throttler
from experiments.testbed.build import Testbed
from experiments.testbed.server import random_file
from experiments.testbed.topology import FAMILIES, Topology
from tributary.settings.failure import Exit, Failure
from tributary.settings.units import PositiveRate, Size

FREE, MIDWAY, ALWAYS = "never", "midway", "always"
"""When the first path is held: not at all, from half of the file on, or as soon as another path has joined."""

_RULE = "first-path-slow"
_SETTLED = 0.3  # seconds after which what was on its way when the hold came has arrived
_HELD = 1.05  # of the rate that a path is held to, on the wire


class ThrottleOptions(Options):
    """A file of ``size`` for every download; ``rate`` is what the first path is held to.

    ``buffer`` is the most that the client's receive buffer may take.
    """

    size: Size = Field(default=Size(5_000_000), description="a size, such as '5MB'")
    rate: PositiveRate = Field(default=PositiveRate(1_000_000), description="a rate, such as '1mbit'")
    buffer: Size = Field(default=Size(720_000), description="a size, such as '0.72MB'")


def held_points(held: str, topology: Topology) -> list[Point]:
    """Downloads by each converter and family whose first path is held at that time."""
    first = topology.links[0].name
    return [
        {"by": converter, "held": held, "link": first, "family": family}
        for family in FAMILIES
        for converter in CONVERTERS
    ]


def measure(built: StandingTestbed, options: ThrottleOptions, point: Point, repetition: int) -> Reading:
    """A download whose first path is held as ``point["held"]`` says.

    Values: ``mbps`` over all; ``held_after_s`` since the request; ``subflows`` that there ever were; and each path's
    rate on the wire before and behind the hold, ``PATH_before_mbps`` and ``PATH_after_mbps``.
    """
    file = random_file(options.size.amount, seed=repetition)
    bound_receive_buffer(built.testbed, options.buffer.amount)
    held: list[Future[float]] = []
    with _throttler(built.testbed, options, point) as path, ThreadPoolExecutor(1) as pool:

        def progress(received: int) -> None:
            if point["held"] == MIDWAY and not held and received >= file.size / 2:
                held.append(pool.submit(_hold, built.testbed, options, path))

        download = fetched(built, point, file, progress=progress)
    after = held[0].result() - download.started if held else 0.0
    return Reading(point, repetition, _values(download, built.testbed.topology, after), download.series())


def _values(download: Download, topology: Topology, after: float) -> dict[str, float]:
    if after + _SETTLED >= download.seconds:
        over = f"the download was over after {download.seconds:.1f} s, {after:.1f} s of them before the hold"
        raise Failure(Exit.USAGE, f"{over}: accepted: a larger size")
    values = {
        "seconds": download.seconds,
        "mbps": download.mbps,
        "subflows": float(download.subflows),
        "held_after_s": after,
    }
    for link in topology.links:
        values[f"{link.name}_bytes"] = float(download.samples[-1].by_path().get(link.name, 0))
        values[f"{link.name}_before_mbps"] = download.wire_mbps(link.name, before=after) if after else 0.0
        values[f"{link.name}_after_mbps"] = download.wire_mbps(link.name, after=after + _SETTLED)
    return values


@contextmanager
def _throttler(testbed: Testbed, options: ThrottleOptions, point: Point) -> Iterator[str]:
    """A throttler for the length of the block; yields the path that its rule is about."""
    path = testbed.topology.links[0].name
    policy = testbed.directory / "throttle.toml"
    policy.write_text(_policy(testbed.topology, path, options.rate, dry=point["held"] != ALWAYS))
    with start_throttler(testbed, policy):
        yield path


def _policy(topology: Topology, path: str, rate: PositiveRate, dry: bool) -> str:
    paths = "".join(f'[paths.{link.name}]\ninterface = "{link.name}"\n' for link in topology.links)
    rule = f'name = "{_RULE}"\nmin_subflows = 2\npath = "{path}"\nrate = "{rate}"\n'
    return f"{paths}[[rules]]\n{rule}dry = {str(dry).lower()}\n"


def _hold(testbed: Testbed, options: ThrottleOptions, path: str) -> float:
    """Tell the throttler, as an operator would; returns the Unix time of its answer."""
    rule = (_RULE, f"path={path}", "min_subflows=2", f"rate={options.rate}")
    testbed.gateway.run(sys.executable, "-m", "throttler", "set", *rule)
    return time.time()


def verdicts_on_hold(options: ThrottleOptions, topology: Topology, readings: Readings, who: str) -> Iterator[Verdict]:
    """What holds of every download behind its hold: the first path is slow, others carry most, nothing reconnected."""
    first, *others = topology.links
    rate = options.rate.amount / 1e6
    slow = readings.estimate(f"{first.name}_after_mbps")
    yield at_most(f"{first.name} is held to its rate, on the wire ({who})", slow, _HELD * rate, "Mbit/s")
    carried = Estimate.of([sum(reading.values[f"{link.name}_after_mbps"] for link in others) for reading in readings])
    yield at_least(f"the load moves: others carry more meanwhile, on the wire ({who})", carried, slow.mean, "Mbit/s")
    subflows = readings.estimate("subflows")
    count = len(topology.links)
    yield Verdict(f"no subflow was lost or made anew ({who})", str(subflows), str(count), subflows.mean == count)
