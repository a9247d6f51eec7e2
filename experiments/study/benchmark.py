"""A benchmark: a scenario whose points are contenders, and that quotes figures instead of holding claims to a bound."""

from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.study.blueprint import Blueprint
from experiments.study.catalogue import BENCH
from experiments.study.figures import Figures
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Chosen, Scenario
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Profile, Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def benchmark(
    name: str,
    question: str,
    about: str,
    options: type[Chosen],
    quick: Mapping[str, int | float | str],
    points: Callable[[Chosen], list[Point]],
    blueprint: Callable[[Chosen, Profile, Point], Blueprint],
    measure: Callable[[Any, Chosen, Point, int], Reading],
    figures: Callable[[Readings], Figures],
    profile: Path = DEFAULT,
    in_turn: bool = False,
) -> Scenario[Chosen]:
    """The scenario ``bench-NAME``; what is measured ``in_turn`` stands for all repetitions."""

    def draw(figure: "Figure", _topology: Topology, readings: Readings) -> None:
        draw_series(figure, figures(readings))

    return Scenario(
        name=f"{BENCH}{name}",
        paper="benchmark",
        claim=question,
        expected="Ratios: machines differ, ratios less so.",
        profile=profile,
        options=options,
        quick=quick,
        points=lambda options, _topology: points(options),
        blueprint=blueprint,
        measure=measure,
        judge=lambda _options, _topology, _readings: [],
        draw=draw,
        about=about,
        any_links=False,
        in_turn=in_turn,
        figures=figures,
    )


def draw_series(figure: "Figure", figures: Figures) -> None:
    """A panel for each unit: the medians of its series, with the least and the most."""
    by_unit = {
        unit: list(group)
        for unit, group in groupby(sorted(figures.series, key=lambda each: each.unit), lambda each: each.unit)
    }
    if not by_unit:
        return
    heights = [1 + len(series) for series in by_unit.values()]
    figure.set_size_inches(10, 1 + 0.3 * sum(heights))
    panels = figure.subplots(len(by_unit), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (unit, series) in zip(panels, by_unit.items(), strict=True):
        middles = [each.median for each in series]
        below = [each.median - min(each.numbers) for each in series]
        above = [max(each.numbers) - each.median for each in series]
        axes.barh([each.name for each in series], middles, xerr=[below, above], color="#777777", capsize=2)
        axes.invert_yaxis()
        axes.set_xlim(0)
        axes.set_xlabel(unit)
