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
from experiments.study.metrics import Metric, ratio
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat, Scenario
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


def metrics(readings: Readings) -> list[Metric]:
    """What each moves, and ``bulk_vs_PEER``."""
    ours = readings.at(by=NATIVE).repeated("mbps")
    return [
        *(Metric(f"one core, {name}", readings.at(by=name).values("mbps"), "Mbit/s") for name in _ALL),
        *(ratio(f"bulk_vs_{peer}", ours, readings.at(by=peer).repeated("mbps")) for peer in _PEERS),
    ]


SCENARIO = Scenario(
    name="bench-acceleration-one-core",
    claim="What does a converter move through one processor, beside Varnish, HAProxy, nginx?",
    about=__doc__,
    options=CoreOptions,
    quick={"repeat": 1, "size": "200MB"},
    points=lambda _options, _topology: [{"by": name} for name in _ALL],
    blueprint=lambda _options, _profile, _point: OneCore(),
    measure=_measure,
    metrics=metrics,
    any_links=False,
    in_turn=True,
)
