"""From the start of a converter to its first SYN answered, with less and less memory and processor."""

from collections.abc import Callable, Iterator

from experiments.bench.converter.contenders import NATIVE, every_contender
from experiments.bench.converter.footprint import resident, start_milliseconds
from experiments.bench.converter.ground import Ground
from experiments.bench.result import Series
from experiments.testbed.cgroup import limited

_GROUP = "tributary-bench"
_MEMORY = (6, 8, 16, 64)
"""Megabytes."""
_SHARES = (5, 10, 25, 50, 100)
"""Of one processor, in per cent."""


def starting(ground: Ground, times: int, say: Callable[[str], None]) -> tuple[list[Series], dict[str, float]]:
    """Medians: ``start_ms`` as it is, ``start_ms_memory_N`` with N MB and ``start_ms_processor_N`` with N % of one
    processor, by a control group. And ``rss_mb``, resident when it listens.
    """
    native = next(each for each in every_contender(ground) if each.name == NATIVE)
    series = [Series("start_ms", "ms", start_milliseconds(ground, native, times))]
    for name, memory, processor in _limits():
        with limited(_GROUP, memory, processor) as wrapper:
            series.append(Series(name, "ms", start_milliseconds(ground, native, times, wrapper)))
    with native.running(ground) as process:
        values = {"rss_mb": resident(process.popen.pid) / 1e6}
    values |= {each.name: each.median for each in series}
    say(", ".join(f"{name} {value:.2f}" for name, value in values.items()))
    return series, values


def _limits() -> Iterator[tuple[str, int | None, float | None]]:
    for megabytes in _MEMORY:
        yield f"start_ms_memory_{megabytes}", megabytes * 1_000_000, None
    for percent in _SHARES:
        yield f"start_ms_processor_{percent}", None, percent / 100
