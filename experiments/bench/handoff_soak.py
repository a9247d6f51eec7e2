"""A million requests by kept connections, at two back ends in turn: is any answered with another one's bytes?

    client -- switch -- front, back end a, back end b      plain cables

Every object has a content of its own, of a random size, known at every offset (tributary-load's stock and fetch).
Each request is for any part of any object, at any back end: so every second one goes to another back end than the one
before, over the same connection. Some are sent before the one before is answered, some clients rest in between.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from pydantic import Field

from experiments.handoff.contest import HANDED_OVER, Contest, at_work
from experiments.handoff.network import SERVICE, standing_network
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed import native
from experiments.testbed.build import reserved, take_down
from experiments.testbed.node import run
from experiments.testbed.tolerance import TOLERANCE
from tributary.settings.failure import Exit, Failure

_COUNTED = ("answers", "bytes", "wrong", "connections", "broken", "per_second", "handed_over")


class SoakOptions(Options):
    """``requests`` by so many ``clients``, each with one connection at a time."""

    repeat: Repeat = 1
    requests: int = Field(default=1_000_000, ge=1, description="a count, above 0")
    clients: int = Field(default=64, ge=1, description="a count, above 0")


@dataclass(frozen=True)
class Stocked:
    """A hand-off at work, over cables, before it stands; each back end has the objects below its name."""

    def as_json(self) -> dict[str, object]:
        """For a manifest."""
        return {"cables": "veth"}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Contest]:  # noqa: ARG002
        """It, for the length of the block."""
        with reserved(name) as directory:
            with standing_network(f"trib-{name}", directory) as network:
                for each in network.back_ends:
                    below = ("--below", str(network.objects(each)))
                    run([str(native.build().load), "stock", *below, "--folders", each])
                with at_work(network):
                    yield Contest(network)
            take_down(name)


def _measure(built: Contest, options: SoakOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if an answer was wrong or a connection broke."""
    asked = ("--requests", str(options.requests), "--clients", str(options.clients))
    command = [str(native.build().load), "fetch", "--to", SERVICE, "--folders", ",".join(built.network.back_ends)]
    with built.client.start("fetch", [*command, *asked]) as process:
        process.popen.wait()
        printed = process.output()
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        raise Failure(Exit.SYSTEM, f"fetch: {printed.strip()}")
    log = (built.network.directory / "access.log").read_text()
    return Reading(point, repetition, told(json.loads(lines[-1]), log), {})


def told(report: dict[str, Any], log: str) -> dict[str, float]:
    """What a client's report comes to, and of the front's access log how many of the requests were handed over. Pure.

    Raises Failure (exit 1) if an answer was wrong or a connection broke.
    """
    if report["wrong"] or report["broken"]:
        raise Failure(Exit.WRONG_RESULT, f"of the requests for objects: {json.dumps(report)}")
    counted = {name: float(report[name]) for name in _COUNTED if name in report}
    return counted | {"handed_over": float(log.count(HANDED_OVER))}


def figures(readings: Readings) -> Figures:
    """What was counted."""
    return Figures(values={name: median(readings.values(name)) for name in _COUNTED})


SCENARIO = benchmark(
    name="handoff-soak",
    question="A million requests by connections that change their back end: is every byte of every answer right?",
    about=__doc__,
    options=SoakOptions,
    quick={"requests": 5000, "clients": 16},
    points=lambda _options: [{"objects": "random"}],
    blueprint=lambda _options, _profile, _point: Stocked(),
    measure=_measure,
    figures=figures,
)
