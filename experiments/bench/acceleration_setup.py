"""How long connections take to stand through a transparent listener with early SYN forwarding, on plain cables."""

from experiments.scenarios import acceleration_setup
from experiments.scenarios.acceleration_setup import CONVERTER, Intercepting, SetupOptions
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series
from experiments.study.readings import Point, Readings
from experiments.study.scenario import Repeat


class StandingOptions(SetupOptions):
    """As of the experiment."""

    repeat: Repeat = 5


def points(options: StandingOptions) -> list[Point]:
    """Through the converter alone."""
    return [{"connections": str(each), "by": CONVERTER} for each in options.connections]


def figures(readings: Readings) -> Figures:
    """``setup_ms_N``: medians, from connect(2) until the server's first byte is there, of connections one after the
    other while N others stand. ``setup_at_once_ms_N``: of N that begin in the same moment; the last one waits for the
    processor's work on all.
    """
    series = [
        Series(f"{name}_{connections}", "ms", readings.at(connections=str(connections)).values(value))
        for connections in sorted({int(reading.point["connections"]) for reading in readings})
        for name, value in (("setup_ms", "beside_ms"), ("setup_at_once_ms", "at_once_ms"))
    ]
    return Figures(series, values={each.name: each.median for each in series})


SCENARIO = benchmark(
    name="acceleration-setup",
    question="How long does a connection take to stand beside 30 to 5,000 others, and that many at once?",
    about=__doc__,
    options=StandingOptions,
    quick={"repeat": 1, "connections": "30,230"},
    points=points,
    blueprint=lambda _options, _profile, _point: Intercepting(),
    measure=acceleration_setup.SCENARIO.measure,
    figures=figures,
    in_turn=True,
)
