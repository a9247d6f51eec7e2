"""The native converter beside more and more open connections: does one request or connection go on to cost the same?

Tunnels stand open and say nothing while new connections and requests are measured beside them. Instructions (callgrind)
and system calls are counted beside the same tunnels: these have no noise.
"""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from experiments.bench.converter.contenders import CONTENDERS, Contender
from experiments.bench.converter.counts import KINDS as COUNTED
from experiments.bench.converter.counts import UNITS, counts
from experiments.bench.converter.footprint import holding
from experiments.bench.parts import NATIVE
from experiments.scenarios.cabled import cabled
from experiments.study.experiment import Counts, Experiment, Repeat, Seconds
from experiments.study.metrics import Metric, ratio
from experiments.study.readings import Point, Reading, Readings, every, name_of
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE
from experiments.testbed.topology import Topology
from experiments.testbed.usage import process_times, resident

_RATES, _COSTS, _SHARES = (
    {unit: name.format(unit) for unit in UNITS} for name in ("{}s_per_second", "cpu_us_per_{}", "{}_kernel_percent")
)
_UNITS = {"rss_mb": "MB"} | {
    name: unit
    for names, unit in ((_RATES.values(), "1/s"), (_COSTS.values(), "us"), (_SHARES.values(), "%"), (COUNTED, "1"))
    for name in names
}
_FLAT = {**dict.fromkeys(_RATES.values(), True), **dict.fromkeys(COUNTED, False)}
"""Values that shall stay as they are, and whether a larger one is better."""
_CLIENTS = "64"
_SOURCES = [f"10.1.1.{host}" for host in range(10, 18)]
"""Addresses of the client that hold the tunnels: one address has some 55,000 ports, which the load wants for itself."""
_SPARE = 2048
"""Descriptors for all but the tunnels, which take two each at the converter."""


class ConverterGrowth(Experiment):
    """How many tunnels are ``open``, and by how many ``workers``. ``seconds``, ``count_seconds``: of each load."""

    claim = "Do connections and requests cost the same beside 100 and beside 50,000 that are open?"
    quick = {"repeat": 1, "open": "10,100", "workers": "2", "seconds": 0.5, "count_seconds": 0.5}
    ground = cabled()

    repeat: Repeat = 3
    open: Counts = (100, 1000, 7000, 50_000)
    workers: Counts = (1, 2)
    seconds: Seconds = 3.0
    count_seconds: Seconds = 2.0

    def points(self, _topology: Topology) -> list[Point]:
        return every(by=[NATIVE], workers=self.workers, open=self.open)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Nothing where files are limited to fewer; raises CommandError (exit 1) unless every tunnel stays alive."""
        contender, open_ = CONTENDERS[NATIVE], int(point["open"])
        settings = f"workers = {point['workers']}\n{contender.program.settings}"
        contender = replace(contender, program=replace(contender.program, settings=settings))
        try:
            room = _descriptors(2 * open_ * 8 // 7 + _SPARE)
        except ValueError:
            print(f"{name_of(point)}: left out: the limit of open files may not be raised", file=sys.stderr)
            return Reading(point, repetition, {})
        with room, _addresses(testbed):
            values = _reached(testbed, contender, open_, self.seconds)
            values |= counts(testbed, contender, self.count_seconds, lambda: _tunnels(testbed, contender, open_))
        return Reading(point, repetition, values)

    def metrics(self, readings: Readings) -> list[Metric]:
        """Every value by workers and tunnels; and of rates and counts the most tunnels to the fewest, 1 if all is
        alike.
        """
        found = []
        measured = Readings(each for each in readings if "rss_mb" in each.values)
        for workers in dict.fromkeys(each.point["workers"] for each in measured):
            these = measured.at(workers=workers)
            counted = sorted({int(each.point["open"]) for each in these})
            for count in counted:
                beside = these.at(open=str(count))
                found += [
                    Metric(f"{value} of {workers} workers beside {count}", beside.samples(value), unit)
                    for value, unit in _UNITS.items()
                ]
            fewest, most = (these.at(open=str(count)) for count in (counted[0], counted[-1]))
            for value, larger in _FLAT.items():
                few, many = (each.repeated(value) for each in (fewest, most))
                name = f"{value}_flat_{workers}"
                found.append(ratio(name, many, few) if larger else ratio(name, few, many))
        return found


def _descriptors(wanted: int) -> AbstractContextManager[object]:
    """At least so many for all that is started within the block; raises ValueError where this process may not."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, before[1]),) * 2)
    put_back = ExitStack()
    put_back.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
    return put_back


@contextmanager
def _addresses(testbed: Testbed) -> Iterator[None]:
    """``_SOURCES`` are the client's for the length of the block."""
    ip = testbed.client.ip
    for source in _SOURCES:
        ip("address", "add", f"{source}/24", "dev", CLIENT_SIDE)
    try:
        yield
    finally:
        for source in _SOURCES:
            ip("address", "del", f"{source}/24", "dev", CLIENT_SIDE)


def _tunnels(testbed: Testbed, contender: Contender, count: int) -> AbstractContextManager[object]:
    sources = [word for source in _SOURCES for word in ("--source", source)]
    return holding(testbed, (*contender.tunnel, *sources), count)


def _reached(testbed: Testbed, contender: Contender, count: int, seconds: float) -> dict[str, float]:
    values = {}
    with contender.running(testbed) as converter, _tunnels(testbed, contender, count):
        stat = Path(f"/proc/{converter.popen.pid}/stat")
        values["rss_mb"] = resident(converter.popen.pid) / 1e6
        for unit, command in UNITS.items():
            time.sleep(0.2)  # what the last load left comes to its end
            before = process_times(stat.read_text())
            told = cables.load(
                testbed, command, "--clients", _CLIENTS, "--seconds", str(seconds), *contender.route, "--mptcp"
            )
            after = process_times(stat.read_text())
            user, kernel = (now - then for then, now in zip(before, after, strict=True))
            values[_RATES[unit]] = float(told["per_second"])
            values[_COSTS[unit]] = 1e6 * (user + kernel) / told["requests"]
            values[_SHARES[unit]] = 100 * kernel / max(user + kernel, 1e-9)
    return values
