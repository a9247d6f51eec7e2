"""From the start of a converter to its first SYN answered, with less and less memory and processor."""

from dataclasses import replace

from experiments.bench.converter.contenders import CONTENDERS
from experiments.bench.converter.footprint import resident
from experiments.bench.parts import NATIVE
from experiments.scenarios import acceleration_start
from experiments.scenarios.acceleration_start import UNLIMITED, StartOptions, limits
from experiments.scenarios.cabled import Cabled, Cables
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Repeat


class StartingOptions(StartOptions):
    """As of the experiment, with fewer starts in a repetition."""

    repeat: Repeat = 5
    count: int = 6


def _measure(built: Cabled, options: StartingOptions, point: Point, repetition: int) -> Reading:
    """``start_ms``; and ``rss_mb``, resident when it listens, without limits."""
    reading = acceleration_start.SCENARIO.measure(built, options, point, repetition)
    if set(point.values()) != {UNLIMITED}:
        return reading
    with CONTENDERS[NATIVE].running(built.cabling) as process:
        return replace(reading, values={**reading.values, "rss_mb": resident(process.popen.pid) / 1e6})


def figures(readings: Readings) -> Figures:
    """``start_ms`` as it is, ``start_ms_memory_N`` with N MB and ``start_ms_processor_N`` with N % of one processor, by
    a control group; and ``rss_mb``.
    """
    limited = dict.fromkeys(_name(reading.point) for reading in readings)
    series = [
        Series(name, "ms", Readings(each for each in readings if _name(each.point) == name).samples("start_ms"))
        for name in limited
    ]
    weight = Series("rss_mb", "MB", readings.values("rss_mb"))
    return Figures(series, values={each.name: each.median for each in (weight, *series)})


def _name(limit: Point) -> str:
    named = (f"_{what}_{amount.rstrip('MB%')}" for what, amount in limit.items() if amount != UNLIMITED)
    return "start_ms" + "".join(named)


SCENARIO = benchmark(
    name="acceleration-start",
    question="How soon does a converter take a connection, with less and less memory and processor?",
    about=__doc__,
    options=StartingOptions,
    quick={"repeat": 1, "count": 3},
    points=limits,
    blueprint=lambda _options, _profile, _point: Cables(),
    measure=_measure,
    figures=figures,
    in_turn=True,
)
