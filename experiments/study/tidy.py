"""All numbers of a run as tidy tables: one value a row, its circumstances in columns of their own. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from experiments.study.readings import Reading, Readings

Rows = Iterator[Sequence[object]]

_UNITS = {
    "ms_per_gb": "ms/GB",
    "s_per_gb": "s/GB",
    "packets_per_mb": "packet/MB",
    "per_second": "1/s",
    "mbps": "Mbit/s",
    "gbps": "Gbit/s",
    "percent": "%",
    "pct": "%",
    "bytes": "byte",
    "kb": "kB",
    "mb": "MB",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
    "s": "s",
}
_NAME = re.compile(rf"(?:(?P<what>.+)_)?(?P<unit>{'|'.join(_UNITS)})(?:_(?P<size>\d+))?")
_BARE = {
    "seconds": ("duration", "s"),
    "mbps": ("throughput", "Mbit/s"),
    "packets_per_mb": ("packets", "packet/MB"),
    "per_second": ("rate", "1/s"),
}
COUNT = "1"


def quantity(name: str) -> tuple[str, str]:
    """What a reading's value ``name`` is, and its unit, "1" for counts.

    "first_byte_ms_25" is "first_byte of 25 kB" in "ms".
    """
    found = _NAME.fullmatch(name)
    if name in _BARE:
        return _BARE[name]
    if not found or not found["what"]:
        return name, COUNT
    size = f" of {found['size']} kB" if found["size"] else ""
    return f"{found['what']}{size}", _UNITS[found["unit"]]


def _values(reading: Reading) -> Rows:
    return ([*quantity(name), number] for name, number in reading.values.items())


def _series(reading: Reading) -> Rows:
    """What went over each path: seconds since the beginning, and Mbit/s until then."""
    return ([path, f"{at:.3f}", f"{rate:.3f}"] for path, rates in reading.series.items() for at, rate in rates)


def _sending(reading: Reading) -> Rows:
    """What each MPTCP subflow's sender knew: congestion window, round-trip time, what it sent again."""
    return ([name, *known] for name, each in reading.sending.items() for known in each)


TABLES: Mapping[str, tuple[Sequence[str], Callable[[Reading], Rows]]] = {
    "values": (("quantity", "unit", "value"), _values),
    "series": (("path", "seconds", "mbps"), _series),
    "sending": (("subflow", "seconds", "window_segments", "rtt_ms", "segments_sent_again"), _sending),
}
"""Of each its columns, and the cells of a reading's rows in them."""


def table(name: str, experiment: str, readings: Readings) -> Rows:
    """The header, then the rows of each reading, behind what tells the reading: its point has a column an axis."""
    columns, cells = TABLES[name]
    axes = list(dict.fromkeys(axis for reading in readings for axis in reading.point))
    yield ["experiment", *axes, "repetition", *columns]
    for reading in readings:
        where = [reading.point.get(axis, "") for axis in axes]
        yield from ([experiment, *where, reading.repetition, *row] for row in cells(reading))
