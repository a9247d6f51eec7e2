"""Bytes, connections and requests a second, of every contender in turn."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from experiments.bench.converter.contenders import DIRECT, NATIVE, Contender, Route
from experiments.bench.converter.extent import Extent
from experiments.testbed.cables import Ground
from settings.failure import Failure

BULK, CONNECTIONS, REQUESTS = "bulk", "connections", "requests"
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

    name: str
    unit: str
    arguments: tuple[str, ...]
    key: str
    scale: float = 1.0


def measurements(extent: Extent) -> Iterator[Measurement]:
    """All of them; the first is the one that the ratios ``bulk_vs_...`` are of."""
    for connections, direction in ((1, ()), *((many, ()) for many in extent.many), (1, ("--upload",))):
        name = BULK + (f" {connections} connections" if connections > 1 else "") + (" upload" if direction else "")
        size = ("--connections", str(connections), "--bytes", str(extent.bulk_bytes // connections))
        yield Measurement(name, "Mbit/s", ("bulk", *size, *direction), "bits_per_second", 1e-6)
    for name, command in ((CONNECTIONS, "connect"), (REQUESTS, "requests")):
        load = (command, "--clients", _CLIENTS, "--seconds", str(extent.seconds))
        yield Measurement(name, "per second", load, "per_second")


def routes(taking_part: Sequence[Contender], measurement: Measurement) -> dict[str, Route]:
    """Those that ``measurement`` can be made of, with "direct"."""
    able = [each for each in taking_part if not (each.stalls and measurement.name.startswith(BULK))]
    return {each.name: each.route for each in able} | {"direct": DIRECT}


def measure(ground: Ground, taking_part: Sequence[Contender], extent: Extent, say: Callable[[str], None]) -> Reached:
    """Every repetition has each measurement of every contender; the next has the contenders the other way round.

    A peer that fails in all its tries of a measurement is left out of it from then on.
    """
    reached: Reached = {}
    given_up: set[tuple[str, str]] = set()
    for repetition in range(extent.repetitions):
        for measurement in measurements(extent):
            in_turn = list(routes(taking_part, measurement).items())[:: -1 if repetition % 2 else 1]
            for name, route in in_turn:
                if (key := (measurement.name, name)) in given_up:
                    continue
                time.sleep(_PAUSE)
                figure = _figure(ground, measurement, name, route, say)
                if figure is None:
                    given_up.add(key)
                else:
                    reached.setdefault(key, []).append(figure)
    return reached


def _figure(
    ground: Ground, measurement: Measurement, name: str, route: Route, say: Callable[[str], None]
) -> float | None:
    """None for a peer that failed each time; raises Failure if ours failed once."""
    for _ in range(_TRIES):
        try:
            told = ground.load(*measurement.arguments, *route, "--mptcp")
        except Failure as failure:
            if name == NATIVE:
                raise
            say(f"{measurement.name}, {name}: failed: {failure}")
            continue
        errors = f", {told['errors']} errors: {told['first_error']}" if told.get("errors") else ""
        figure: float = measurement.scale * told[measurement.key]
        say(f"{measurement.name}, {name}: {figure:.0f} {measurement.unit}{errors}")
        return figure
    return None
