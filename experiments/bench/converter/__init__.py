"""The native converter beside what else there is: speed, delay, start and memory, on the same two processors.

Each figure is of MPTCP clients. The contenders listen all at once and are measured in turn.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median

from experiments.bench.converter.contenders import NATIVE, Contender, every_contender
from experiments.bench.converter.delay import conversion_microseconds
from experiments.bench.converter.extent import FULL, QUICK, Extent
from experiments.bench.converter.footprint import holding, idle, most_held, start_milliseconds
from experiments.bench.converter.ratios import ratios
from experiments.bench.converter.throughput import DIRECT_NAME, KINDS, Course, Reached, measure, measurements
from experiments.bench.pair import NAME
from experiments.bench.parts import Parts, Selection
from experiments.bench.processors import kept_to
from experiments.bench.result import Result
from experiments.study.figures import Series
from experiments.testbed.cables import Cabling, laid_out
from experiments.testbed.native import build

_PROCESSORS = 2
_COSTS, _DELAY = "costs", "delay"


def converter(quick: bool, say: Callable[[str], None]) -> Result:
    """A gigabyte and five repetitions of everything, or a third of it twice if ``quick``; medians and ratios."""
    return parts(PARTS.selected((), ()), quick, say)


def parts(wanted: Selection, quick: bool, say: Callable[[str], None]) -> Result:
    """The same of what is ``wanted`` alone."""
    extent = QUICK if quick else FULL
    say("building the converter")
    programs = build(released=True)
    processors = sorted(os.sched_getaffinity(0))[:_PROCESSORS]
    with kept_to(processors), laid_out(programs, NAME) as made, ExitStack() as stack:
        asked = [each for each in every_contender(made) if each.name in {NATIVE, *wanted.peers}]
        taking_part = present(asked, say)
        values, starts = _costs(made, taking_part, extent, say) if _COSTS in wanted.measurements else ({}, [])
        for contender in taking_part:
            stack.enter_context(contender.running(made))
        for contender in taking_part if _DELAY in wanted.measurements else ():
            values |= _named(contender, conversion_microseconds(made, contender, extent.seconds))
        course = Course(made, taking_part, DIRECT_NAME in wanted.peers, processors, say)
        of_these = [each for each in measurements(extent) if each.kind in wanted.measurements]
        reached = measure(course, of_these, extent.repetitions)
    missing = tuple(each.name for each in asked if each.missing)
    return Result((*_series(reached, extent), *starts), ratios(reached), values, missing)


PARTS = Parts((_COSTS, _DELAY, *KINDS), ("squid", "haproxy", "varnish", "nginx", "relay", DIRECT_NAME), parts)


def present(all_of_them: Sequence[Contender], say: Callable[[str], None]) -> list[Contender]:
    """Those whose programs are here; who is not is told."""
    for contender in all_of_them:
        if contender.missing:
            say(f"{contender.name} is left out: {contender.missing} is not here (scripts/setup --dev installs it)")
        elif contender.stalls:
            say(f"{contender.name} is left out of bulk: its transfers stall")
    return [contender for contender in all_of_them if not contender.missing]


def _costs(
    made: Cabling, taking_part: Sequence[Contender], extent: Extent, say: Callable[[str], None]
) -> tuple[dict[str, float], list[Series]]:
    """What each takes before there is work, alone on the machine: values, and how long each start took."""
    values: dict[str, float] = {}
    starts = []
    for contender in taking_part:
        times = start_milliseconds(made, contender, extent.starts)
        starts.append(Series(f"start, {contender.name}", "ms", times))
        megabytes, kilobytes = idle(made, contender, extent.idle)
        own = {"start_ms": median(times), "idle_rss_mb": megabytes, "per_idle_connection_kb": kilobytes}
        values |= _named(contender, own)
        say(f"{contender.name}: " + ", ".join(f"{name} {value:.1f}" for name, value in own.items()))
        if contender.name == NATIVE:
            values["held_connections"] = _held(made, contender, most_held(extent.held))
    return values, starts


def _held(made: Cabling, contender: Contender, connections: int) -> float:
    with contender.running(made), holding(made, contender.tunnel, connections):
        return connections


def _named(contender: Contender, values: Mapping[str, float]) -> dict[str, float]:
    """Ours under the bare names, the others' with their own in front."""
    prefix = "" if contender.name == NATIVE else f"{contender.name}_"
    return {f"{prefix}{name}": value for name, value in values.items()}


def _series(reached: Reached, extent: Extent) -> Iterator[Series]:
    units = {measurement.name: measurement.unit for measurement in measurements(extent)}
    for (measurement, contender), numbers in reached.items():
        yield Series(f"{measurement}, {contender}", units[measurement], tuple(numbers))
