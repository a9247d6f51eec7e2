"""What many instances have in memory, each in a network namespace of its own: one for every tenant.

None has traffic. What they share counts once (Pss, proc(5)).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from experiments.bench.converter.contenders import CONTENDERS, Program, varnish
from experiments.bench.parts import NATIVE
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Counts, Experiment, Repeat
from experiments.study.metrics import Metric
from experiments.study.readings import Point, Reading, Readings, every
from experiments.testbed.build import reserved
from experiments.testbed.node import Node
from experiments.testbed.topology import Profile, Topology
from experiments.testbed.usage import proportional

_PORT = 3128
_SETTLE, _SETTLED = 2.0, 1.01  # seconds; growth in that time
_PROGRAMS = {NATIVE: CONTENDERS[NATIVE].program, "haproxy": CONTENDERS["haproxy"].program, "varnish": varnish("1m")}
_MOST = {"varnish": 100}
"""Instances of one that compiles for about a second as each starts."""


def namespaces(tenants: int) -> Ground[Sequence[Node]]:
    """So many of them."""

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Sequence[Node]]]:
        with reserved(name) as directory:
            nodes = [Node(f"trib-{name}-tenant{number}", directory) for number in range(tenants)]
            for node in nodes:
                node.create()
            yield Standing(nodes)

    return Ground({"namespaces": tenants}, stands)


class AccelerationInstances(Experiment):
    """How many ``instances`` there are at once."""

    claim = "What have 1 to 1,000 converters in memory, each in a namespace of its own, beside HAProxy and Varnish?"
    quick = {"instances": "1,10"}

    repeat: Repeat = 1
    instances: Counts = (1, 100, 1000)

    def points(self, _topology: Topology) -> list[Point]:
        asked = every(by=_PROGRAMS, instances=self.instances)
        return [each for each in asked if int(each["instances"]) <= _MOST.get(each["by"], max(self.instances))]

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Sequence[Node]]:
        return namespaces(max(self.instances))

    def measure(self, nodes: Sequence[Node], point: Point, repetition: int) -> Reading:
        """``instances_mb``; nothing of a program that is not here."""
        by = point["by"]
        if CONTENDERS[by].missing:
            return Reading(point, repetition, {})
        with _running(_PROGRAMS[by], nodes[: int(point["instances"])]) as pids:
            return Reading(point, repetition, {"instances_mb": _settled(pids) / 1e6})

    def metrics(self, readings: Readings) -> list[Metric]:
        """``instances_mb_N``: megabytes of N converters; the same of the peers, with their names in front."""
        counts = sorted({int(reading.point["instances"]) for reading in readings})
        return [
            Metric(
                f"{'' if by == NATIVE else f'{by}_'}instances_mb_{count}",
                readings.at(by=by, instances=str(count)).values("instances_mb"),
            )
            for by in _PROGRAMS
            for count in counts
        ]


def _settled(pids: Sequence[int]) -> int:
    """Bytes in memory once they have stopped to grow: Varnish listens before it has compiled."""
    before, now = 0, proportional(pids)
    while now > _SETTLED * before:
        time.sleep(_SETTLE)
        before, now = now, proportional(pids)
    return now


@contextmanager
def _running(program: Program, nodes: Sequence[Node]) -> Iterator[list[int]]:
    """An instance in each of ``nodes`` for the length of the block; raises CommandError if one does not listen."""
    with ExitStack() as stack:
        running = {}
        for node in nodes:
            command = stack.enter_context(program.prepared(node.directory, node.namespace, f"127.0.0.1:{_PORT}"))
            running[node] = stack.enter_context(node.start(node.namespace, command))
        for node, process in running.items():
            process.wait_until(partial(node.listens, _PORT))
        yield [process.popen.pid for process in running.values()]
