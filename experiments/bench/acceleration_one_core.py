"""One download through one processor, by plain TCP: what a converter moves, beside its peers.

Contenders have the last processor; all else, client and origin and benchmark, is left to the others if there are any.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pydantic import Field

from experiments.bench.converter.contenders import CONTENDERS
from experiments.bench.parts import NATIVE
from experiments.scenarios.cabled import cables_with
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, Repeat
from experiments.study.metrics import Metric, ratio
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Profile
from tributary.settings.units import Size

_PEERS = ("varnish", "haproxy", "nginx")
_ALL = (NATIVE, *_PEERS)


@contextmanager
def _contending(testbed: Testbed, processor: int) -> Iterator[Testbed]:
    """All contenders that are here listen by TCP, on one processor."""
    with ExitStack() as stack:
        for contender in (CONTENDERS[each] for each in _ALL if not CONTENDERS[each].missing):
            stack.enter_context(contender.running(testbed, "taskset", "--cpu-list", str(processor), mptcp=False))
        yield testbed


class AccelerationOneCore(Experiment):
    """``size``: of the download."""

    claim = "What does a converter move through one processor, beside Varnish, HAProxy, nginx?"
    quick = {"repeat": 1, "size": "200MB"}
    in_turn = True
    at = [{"by": name} for name in _ALL]

    repeat: Repeat = 5
    size: Size = Field(default=Size(2_000_000_000), description="a size, such as '200MB'")

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Testbed]:
        *others, last = sorted(os.sched_getaffinity(0))
        return cables_with(lambda testbed: _contending(testbed, last), others or [last])

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """``mbps``; nothing of who is not here."""
        contender = CONTENDERS[point["by"]]
        if contender.missing:
            return Reading(point, repetition, {})
        told = cables.load(testbed, "bulk", "--bytes", str(self.size.amount), *contender.route)
        return Reading(point, repetition, {"mbps": told["bits_per_second"] / 1e6})

    def metrics(self, readings: Readings) -> list[Metric]:
        ours = readings.at(by=NATIVE).repeated("mbps")
        return [
            *(Metric(f"one core, {name}", readings.at(by=name).values("mbps"), "Mbit/s") for name in _ALL),
            *(ratio(f"bulk_vs_{peer}", ours, readings.at(by=peer).repeated("mbps")) for peer in _PEERS),
        ]
