"""All numbers of a run as tidy tables: one value a row, its circumstances in columns of their own. Pure."""

import re
from collections.abc import Iterator, Sequence

from experiments.study.readings import Readings

Rows = Iterator[Sequence[object]]

_UNITS = {
    "s_per_gb": "s/GB",
    "packets_per_mb": "packet/MB",
    "mbps": "Mbit/s",
    "percent": "%",
    "bytes": "byte",
    "ms": "ms",
    "us": "us",
    "s": "s",
}
_NAME = re.compile(rf"(?:(?P<what>.+)_)?(?P<unit>{'|'.join(_UNITS)})(?:_(?P<size>\d+))?")
_BARE = {"seconds": ("duration", "s"), "mbps": ("throughput", "Mbit/s"), "packets_per_mb": ("packets", "packet/MB")}
_COUNT = "1"


def quantity(name: str) -> tuple[str, str]:
    """What a reading's value ``name`` is, and its unit, "1" for counts.

    "first_byte_ms_25" is "first_byte of 25 kB" in "ms".
    """
    found = _NAME.fullmatch(name)
    if name in _BARE:
        return _BARE[name]
    if not found or not found["what"]:
        return name, _COUNT
    size = f" of {found['size']} kB" if found["size"] else ""
    return f"{found['what']}{size}", _UNITS[found["unit"]]


def values(experiment: str, readings: Readings) -> Rows:
    """The header, then a row for each value: experiment, the point's columns, repetition, quantity, unit, value."""
    axes = _axes(readings)
    yield ["experiment", *axes, "repetition", "quantity", "unit", "value"]
    for reading in readings:
        where = [reading.point.get(axis, "") for axis in axes]
        for name, number in reading.values.items():
            yield [experiment, *where, reading.repetition, *quantity(name), number]


def series(experiment: str, readings: Readings) -> Rows:
    """The same for what went over each path: seconds since the beginning, and Mbit/s until then."""
    axes = _axes(readings)
    yield ["experiment", *axes, "repetition", "path", "seconds", "mbps"]
    for reading in readings:
        where = [reading.point.get(axis, "") for axis in axes]
        for path, rates in reading.series.items():
            for at, rate in rates:
                yield [experiment, *where, reading.repetition, path, f"{at:.3f}", f"{rate:.3f}"]


def _axes(readings: Readings) -> list[str]:
    """What points of the run differ in, in the order in which it comes up."""
    return list(dict.fromkeys(axis for reading in readings for axis in reading.point))
