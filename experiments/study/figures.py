"""What a benchmark quotes of its readings: medians, and ratios of ours to each peer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from experiments.study.readings import STOLEN, Readings


@dataclass(frozen=True)
class Series:
    """What one contender reached, every single time; ``unit`` is that of every number, such as ``Mbit/s``."""

    name: str
    unit: str
    numbers: Sequence[float]

    @property
    def median(self) -> float:
        """The number to quote."""
        return median(self.numbers)


@dataclass(frozen=True)
class Figures:
    """``ratios`` are ours to each peer, larger is better; ``values`` have their unit in the key's name."""

    series: Sequence[Series] = ()
    ratios: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def __or__(self, other: "Figures") -> "Figures":
        """Both."""
        return Figures([*self.series, *other.series], self.ratios | other.ratios, self.values | other.values)


def ratios(value: str, compared: Mapping[str, tuple[Readings, Readings]]) -> dict[str, float]:
    """Of ours to theirs in each repetition, their median; no ratio where no repetition has both.

    What stands in one repetition was measured within moments: a machine that others slow down slows both.
    """
    found = {name: pairs(ours, theirs, value) for name, (ours, theirs) in compared.items()}
    return {name: median(own / peers for own, peers in both) for name, both in found.items() if both}


def pairs(ours: Readings, theirs: Readings, value: str) -> list[tuple[float, float]]:
    """The ``value`` of both in each repetition that has it of both."""
    own, peers = (
        {reading.repetition: reading.values[value] for reading in side if value in reading.values}
        for side in (ours, theirs)
    )
    return [(own[repetition], peers[repetition]) for repetition in own if repetition in peers]


def missing(readings: Readings) -> list[str]:
    """Contenders, ``by`` in their points, of whom nothing was measured: their programs are not here."""
    asked = dict.fromkeys(reading.point["by"] for reading in readings if "by" in reading.point)
    here = {reading.point.get("by") for reading in readings if reading.values.keys() - {STOLEN}}
    return [name for name in asked if name not in here]
