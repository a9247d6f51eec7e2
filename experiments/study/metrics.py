"""What an experiment quotes of its readings beside its claims: medians, and ratios of ours to each peer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from experiments.study.plot import resize
from experiments.study.readings import STOLEN, Readings, Repeated
from experiments.study.tidy import COUNT, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIO = "x"


@dataclass(frozen=True)
class Metric:
    """A number to quote, the median of ``numbers``; the ``unit`` is that of its name unless it is given.

    Of a RATIO larger is better. One without a number is not quoted: that peer is not here.
    """

    name: str
    numbers: Sequence[float]
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.unit or quantity(self.name)[1])

    @property
    def median(self) -> float:
        return median(self.numbers)


def ratio(name: str, ours: Repeated, theirs: Repeated) -> Metric:
    """Of ours to theirs in each repetition that has both.

    What stands in one repetition was measured within moments: a machine that others slow down slows both.
    """
    return Metric(name, [*(ours / theirs).numbers.values()], RATIO)


def metrics_of(readings: Readings, values: Sequence[str], prefix: str = "") -> list[Metric]:
    """These ``values`` of ``readings`` under their own names, with a ``prefix``."""
    return [Metric(f"{prefix}{name}", readings.samples(name)) for name in values]


def as_json(metrics: Sequence[Metric]) -> dict[str, object]:
    """Ratios and values by their names, rounded, and every single measurement."""
    quoted = {each.name: round(each.median, 4) for each in metrics}
    ratios = {each.name for each in metrics if each.unit == RATIO}
    return {
        "ratios": {name: number for name, number in quoted.items() if name in ratios},
        "values": {name: number for name, number in quoted.items() if name not in ratios},
        "series": [
            {"name": each.name, "unit": each.unit, "numbers": list(each.numbers)}
            for each in metrics
            if each.name not in ratios
        ],
    }


def missing(readings: Readings) -> list[str]:
    """Contenders, ``by`` in their points, of whom nothing was measured: their programs are not here."""
    asked = dict.fromkeys(reading.point["by"] for reading in readings if "by" in reading.point)
    here = {reading.point.get("by") for reading in readings if reading.values.keys() - {STOLEN}}
    return [name for name in asked if name not in here]


def draw(figure: "Figure", metrics: Sequence[Metric]) -> None:
    """A panel for each unit: the medians of its metrics, with the least and the most; no counts and no ratios."""
    drawn = sorted((each for each in metrics if each.unit not in (RATIO, COUNT)), key=lambda each: each.unit)
    by_unit: Mapping[str, list[Metric]] = {unit: list(those) for unit, those in groupby(drawn, lambda each: each.unit)}
    if not by_unit:
        return
    heights = [1 + len(those) for those in by_unit.values()]
    resize(figure, 10, 1 + 0.3 * sum(heights))
    panels = figure.subplots(len(by_unit), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (unit, those) in zip(panels, by_unit.items(), strict=True):
        below = [each.median - min(each.numbers) for each in those]
        above = [max(each.numbers) - each.median for each in those]
        medians = [each.median for each in those]
        axes.barh([each.name for each in those], medians, xerr=[below, above], color="#777777", capsize=2)
        axes.invert_yaxis()
        axes.set_xlim(0)
        axes.set_xlabel(unit)
