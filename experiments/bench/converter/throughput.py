"""Bytes, connections and requests a second."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from experiments.bench.converter.contenders import Route
from experiments.bench.parts import BULK, BULK_MANY, CONNECTIONS, NATIVE, REQUESTS, UPLOAD
from experiments.study.readings import Point, name_of
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from tributary.settings.errors import CommandError

_BYTES = (BULK, BULK_MANY, UPLOAD)
_COMMANDS = {CONNECTIONS: "connect", REQUESTS: "requests"}
KINDS = (*_BYTES, *_COMMANDS)
_CLIENTS = "64"
_PAUSE = 0.2
"""Seconds in which what the last measurement left comes to its end."""
_TRIES = 3
"""Squid 5.7 breaks some uploads off (by MPTCP, at these rates) that it takes when they are tried again."""


def moves_bytes(measurement: str) -> bool:
    """Whether bytes are counted."""
    return measurement in _BYTES


def only_comes_down(measurement: str) -> bool:
    """Whether next to nothing goes from the client to the origin."""
    return measurement in (BULK, BULK_MANY)


def value_of(measurement: str) -> str:
    """The name of what is measured."""
    return "mbps" if moves_bytes(measurement) else "per_second"


def load_of(point: Point, size: int, seconds: float) -> tuple[str, ...]:
    """Arguments of tributary-load: ``size`` bytes over all connections together, or so many ``seconds``."""
    measurement = point["measure"]
    if not moves_bytes(measurement):
        return (_COMMANDS[measurement], "--clients", _CLIENTS, "--seconds", str(seconds))
    connections = int(point.get("connections", "1"))
    each = ("--connections", str(connections), "--bytes", str(size // connections))
    return ("bulk", *each, *(["--upload"] if measurement == UPLOAD else []))


def throughput(testbed: Testbed, point: Point, load: tuple[str, ...], route: Route) -> dict[str, float]:
    """``mbps`` or ``per_second``; nothing of a peer that failed each time. Raises CommandError if ours failed once."""
    time.sleep(_PAUSE)
    for _ in range(_TRIES):
        try:
            return _figure(point, cables.load(testbed, *load, *route, "--mptcp"))
        except CommandError as failure:
            if point["by"] == NATIVE:
                raise
            print(f"{name_of(point)}: failed: {failure}", file=sys.stderr)
    return {}


def _figure(point: Point, told: Mapping[str, Any]) -> dict[str, float]:
    if told.get("errors"):
        print(f"{name_of(point)}: {told['errors']} errors: {told['first_error']}", file=sys.stderr)
    value = value_of(point["measure"])
    return {value: told["bits_per_second"] / 1e6 if value == "mbps" else float(told[value])}
