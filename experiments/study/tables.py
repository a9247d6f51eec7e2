"""The tables of a report: every number of a run, and the links that it was measured on. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.study.readings import Estimate, Reading, Readings, name_of

_PROPERTIES = {
    "rtt_ms": "round-trip time, ms",
    "down_mbps": "rate to the client, Mbit/s",
    "up_mbps": "rate from the client, Mbit/s",
}


@dataclass(frozen=True)
class Table:
    """Text by row; each row is as long as the header. The first ``words`` columns hold no numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int


def numbers(readings: Readings) -> Table:
    """A row for each point: its circumstances, how many readings there are, and the estimate of each value."""
    by_point: dict[str, list[Reading]] = {}
    for reading in readings:
        by_point.setdefault(name_of(reading.point), []).append(reading)
    groups = [by_point[name] for name in sorted(by_point, key=_natural)]
    circumstances = list(dict.fromkeys(key for group in groups for key in group[0].point))
    values = list(dict.fromkeys(name for reading in readings for name in reading.values))
    rows = [
        [
            *(group[0].point.get(key, "") for key in circumstances),
            str(len(group)),
            *(_estimate(Readings(group).values(name)) for name in values),
        ]
        for group in groups
    ]
    return Table([*circumstances, "readings", *values], rows, words=len(circumstances))


def links(testbeds: Iterable[Mapping[str, Any]]) -> Table:
    """A row for each property of a link: as described, and as measured on every testbed that described it so."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for testbed in testbeds:
        for each in testbed["measured"]:
            found.setdefault((each["link"], each["what"], each["described"]), []).append(each["measured"])
    rows = [
        [link, _PROPERTIES.get(what, what), f"{described:.2f}", _range(measured), str(len(measured))]
        for (link, what, described), measured in found.items()
    ]
    return Table(["link", "property", "as described", "as measured", "testbeds"], rows, words=2)


def _estimate(values: Sequence[float]) -> str:
    """The estimate, in whole numbers from a thousand on; nothing where nothing was measured."""
    if not values:
        return ""
    estimate = Estimate.of(values)
    if estimate.mean < 1000:
        return str(estimate)
    return f"{estimate.mean:,.0f} ± {estimate.margin:,.0f}" if estimate.margin else f"{estimate.mean:,.0f}"


def _range(measured: Sequence[float]) -> str:
    least, most = f"{min(measured):.2f}", f"{max(measured):.2f}"
    return least if least == most else f"{least} to {most}"


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts rate=5 before rate=20."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]
