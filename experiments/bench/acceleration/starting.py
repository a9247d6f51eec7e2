"""From the start of a converter to its first SYN answered, with less and less memory and processor."""

from collections.abc import Callable

from experiments.bench.converter.contenders import NATIVE, every_contender
from experiments.bench.converter.footprint import resident
from experiments.scenarios.acceleration_start import UNLIMITED, StartOptions, limits, start_milliseconds
from experiments.study.figures import Series
from experiments.study.readings import Point
from experiments.testbed.cables import Cabling


def starting(cabling: Cabling, times: int, say: Callable[[str], None]) -> tuple[list[Series], dict[str, float]]:
    """Medians: ``start_ms`` as it is, ``start_ms_memory_N`` with N MB and ``start_ms_processor_N`` with N % of one
    processor, by a control group. And ``rss_mb``, resident when it listens.
    """
    series = [Series(_name(limit), "ms", start_milliseconds(cabling, limit, times)) for limit in limits(StartOptions())]
    native = next(each for each in every_contender(cabling) if each.name == NATIVE)
    with native.running(cabling) as process:
        values = {"rss_mb": resident(process.popen.pid) / 1e6}
    values |= {each.name: each.median for each in series}
    say(", ".join(f"{name} {value:.2f}" for name, value in values.items()))
    return series, values


def _name(limit: Point) -> str:
    named = (f"_{what}_{amount.rstrip('MB%')}" for what, amount in limit.items() if amount != UNLIMITED)
    return "start_ms" + "".join(named)
