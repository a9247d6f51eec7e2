"""Bytes, connections and requests a second, of every contender in turn."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from experiments.bench.converter.contenders import DIRECT, NATIVE, Contender, Route
from experiments.bench.converter.extent import Extent
from experiments.bench.converter.steering import steered
from experiments.testbed.cables import Cabling
from tributary.settings.failure import Failure

BULK, BULK_MANY, UPLOAD = "bulk", "bulk_many", "upload"
CONNECTIONS, REQUESTS = "connections", "requests"
KINDS = (BULK, BULK_MANY, UPLOAD, CONNECTIONS, REQUESTS)
"""Of measurements; there is one of each, but of BULK_MANY one for each number of connections."""
DIRECT_NAME = "direct"
"""What stands for no converter at all among the contenders."""
_CLIENTS = "64"
_PAUSE = 0.2
"""Seconds in which what the last measurement left comes to its end."""
_TRIES = 3
"""Squid 5.7 breaks some uploads off (by MPTCP, at these rates) that it takes when they are tried again."""

Reached = dict[tuple[str, str], list[float]]
"""Each repetition's figure by measurement and contender."""


@dataclass(frozen=True)
class Measurement:
    """``arguments`` of tributary-load, and what to take of what it tells."""

    kind: str
    name: str
    unit: str
    arguments: tuple[str, ...]
    key: str
    scale: float = 1.0

    @property
    def is_bulk(self) -> bool:
        """Whether bytes are counted."""
        return self.kind in (BULK, BULK_MANY, UPLOAD)

    @property
    def only_comes_down(self) -> bool:
        """Whether next to nothing goes from the client to the origin."""
        return self.kind in (BULK, BULK_MANY)


@dataclass(frozen=True)
class Course:
    """Where and how measurements are made: by whom, how long, on which processors. ``say`` tells of progress."""

    cabling: Cabling
    taking_part: Sequence[Contender]
    direct: bool
    processors: Sequence[int]
    say: Callable[[str], None]

    def routes(self, measurement: Measurement) -> dict[str, Route]:
        """Those that ``measurement`` can be made of, with DIRECT_NAME if that takes part."""
        able = [each for each in self.taking_part if not (each.stalls and measurement.is_bulk)]
        return {each.name: each.route for each in able} | ({DIRECT_NAME: DIRECT} if self.direct else {})

    def steering(self, measurement: Measurement) -> AbstractContextManager[None]:
        """What ``measurement`` needs of the cables."""
        return nullcontext() if measurement.only_comes_down else steered(self.cabling.testbed, self.processors)


def measurements(extent: Extent) -> Iterator[Measurement]:
    """All of them."""
    yield _bulk(BULK, BULK, extent, 1)
    for connections in extent.many:
        yield _bulk(BULK_MANY, f"{BULK} {connections} connections", extent, connections)
    yield _bulk(UPLOAD, UPLOAD, extent, 1, "--upload")
    for kind, command in ((CONNECTIONS, "connect"), (REQUESTS, "requests")):
        load = (command, "--clients", _CLIENTS, "--seconds", str(extent.seconds))
        yield Measurement(kind, kind, "per second", load, "per_second")


def _bulk(kind: str, name: str, extent: Extent, connections: int, *direction: str) -> Measurement:
    size = ("--connections", str(connections), "--bytes", str(extent.bulk_bytes // connections))
    return Measurement(kind, name, "Mbit/s", ("bulk", *size, *direction), "bits_per_second", 1e-6)


def measure(course: Course, wanted: Sequence[Measurement], repetitions: int) -> Reached:
    """Every repetition has each measurement of every contender; the next has the contenders the other way round.

    A peer that fails in all its tries of a measurement is left out of it from then on.
    """
    reached: Reached = {}
    given_up: set[tuple[str, str]] = set()
    for repetition in range(repetitions):
        for measurement in wanted:
            in_turn = list(course.routes(measurement).items())[:: -1 if repetition % 2 else 1]
            with course.steering(measurement):
                for name, route in in_turn:
                    if (key := (measurement.name, name)) in given_up:
                        continue
                    time.sleep(_PAUSE)
                    figure = _figure(course, measurement, name, route)
                    if figure is None:
                        given_up.add(key)
                    else:
                        reached.setdefault(key, []).append(figure)
    return reached


def _figure(course: Course, measurement: Measurement, name: str, route: Route) -> float | None:
    """None for a peer that failed each time; raises Failure if ours failed once."""
    for _ in range(_TRIES):
        try:
            told = course.cabling.load(*measurement.arguments, *route, "--mptcp")
        except Failure as failure:
            if name == NATIVE:
                raise
            course.say(f"{measurement.name}, {name}: failed: {failure}")
            continue
        errors = f", {told['errors']} errors: {told['first_error']}" if told.get("errors") else ""
        figure: float = measurement.scale * told[measurement.key]
        course.say(f"{measurement.name}, {name}: {figure:.0f} {measurement.unit}{errors}")
        return figure
    return None
