"""One download through one processor, by plain TCP: what a converter moves, beside its peers.

Contenders have the last processor; all else, client and origin and benchmark, is left to the others if there are any.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pydantic import Field

from experiments.bench.converter.contenders import CONTENDERS
from experiments.bench.parts import NATIVE
from experiments.bench.processors import kept_to
from experiments.scenarios.cabled import Cabled, Cables
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series, ratios
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed.tolerance import TOLERANCE
from tributary.settings.units import Size

_PEERS = ("varnish", "haproxy", "nginx")
_ALL = (NATIVE, *_PEERS)


class CoreOptions(Options):
    """``size``: of the download."""

    repeat: Repeat = 5
    size: Size = Field(default=Size(2_000_000_000), description="a size, such as '200MB'")


class OneCore(Cables):
    """All contenders that are here listen by TCP, on the last processor."""

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Cabled]:
        *others, last = sorted(os.sched_getaffinity(0))
        kept = kept_to(others or [last])
        with kept, super().standing(name, seed, tolerance) as built, ExitStack() as stack:
            for contender in (CONTENDERS[each] for each in _ALL if not CONTENDERS[each].missing):
                on_last = ("taskset", "--cpu-list", str(last))
                stack.enter_context(contender.running(built.cabling, *on_last, mptcp=False))
            yield built


def _measure(built: Cabled, options: CoreOptions, point: Point, repetition: int) -> Reading:
    """``mbps``; nothing of who is not here."""
    contender = CONTENDERS[point["by"]]
    if contender.missing:
        return Reading(point, repetition, {}, {})
    told = built.cabling.load("bulk", "--bytes", str(options.size.amount), *contender.route)
    return Reading(point, repetition, {"mbps": told["bits_per_second"] / 1e6}, {})


def figures(readings: Readings) -> Figures:
    """``bulk_vs_PEER``."""
    reached = {name: readings.at(by=name) for name in _ALL}
    return Figures(
        [
            Series(f"one core, {name}", "Mbit/s", each.values("mbps"))
            for name, each in reached.items()
            if each.values("mbps")
        ],
        ratios=ratios("mbps", {f"bulk_vs_{peer}": (reached[NATIVE], reached[peer]) for peer in _PEERS}),
    )


SCENARIO = benchmark(
    name="acceleration-one-core",
    question="What does a converter move through one processor, beside Varnish, HAProxy, nginx?",
    about=__doc__,
    options=CoreOptions,
    quick={"repeat": 1, "size": "200MB"},
    points=lambda _options: [{"by": name} for name in _ALL],
    blueprint=lambda _options, _profile, _point: OneCore(),
    measure=_measure,
    figures=figures,
    in_turn=True,
)
