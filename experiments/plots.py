"""What experiments draw with: values over a quantity, bars, and each path's throughput over time, in its colour."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.study.readings import Estimate, Reading, Readings

# Okabe and Ito's colours, told apart by the colour-blind too.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
Place = TypeVar("Place", bound=float)
_PAYLOAD = "payload, Mbit/s (paths stacked)"


def colours_of(paths: Iterable[str]) -> dict[str, str]:
    """The colours of ``paths``, which come in the order of their profile."""
    return {path: _PALETTE[number % len(_PALETTE)] for number, path in enumerate(paths)}


def curve(axes: Axes, over: Mapping[Place, Readings], value: str, label: str = "", **style: Any) -> None:
    """A ``value`` of readings as a line()."""
    line(axes, {place: readings.estimate(value) for place, readings in over.items()}, label, **style)


def line(axes: Axes, over: Mapping[Place, Estimate], label: str = "", **style: Any) -> None:
    """Estimates with their intervals ``over`` a quantity, with a ``style`` of matplotlib's."""
    means, margins = [each.mean for each in over.values()], [each.margin for each in over.values()]
    look = {"marker": "o", "markersize": 4, "capsize": 2, **style}
    axes.errorbar(list(over), means, margins, label=label or None, **look)


def theory(axes: Axes, over: Mapping[Place, float], colour: str, label: str = "") -> None:
    """What is expected ``over`` the same quantity: dotted."""
    axes.plot(list(over), list(over.values()), color=colour, linestyle=":", linewidth=1, label=label or None)


def bars(
    axes: Axes, places: Sequence[str], heights: Mapping[str, Sequence[Estimate]], colours: Mapping[str, str]
) -> list[BarContainer]:
    """At each of the named ``places`` the bars of all labels, side by side; returns them."""
    width, drawn = 0.8 / len(heights), []
    for number, (label, estimates) in enumerate(heights.items()):
        at = [place + width * (number - (len(heights) - 1) / 2) for place in range(len(places))]
        means, margins = [each.mean for each in estimates], [each.margin for each in estimates]
        whiskers = margins if any(margins) else None
        drawn.append(axes.bar(at, means, 0.9 * width, yerr=whiskers, color=colours[label], label=label, capsize=2))
    axes.set_xticks(range(len(places)), places)
    return drawn


def name_axes(
    axes: Axes,
    x: str = "",
    y: str = "",
    along: Literal["x", "y", "both"] = "both",
    *,
    legend: bool = False,
    log: Sequence[float] = (),
) -> None:
    """Name both, with a grid ``along`` an axis; values begin at 0. ``log`` are the marks of a logarithmic x."""
    if log:
        axes.set_xscale("log")
        axes.set_xticks(log, [f"{each:g}" for each in log])
        axes.minorticks_off()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if axes.get_yscale() == "linear":
        axes.set_ylim(0)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    tidy(axes, along)


def paths(
    figure: Figure, colours: Mapping[str, str], titled: Mapping[str, Reading], what: str = _PAYLOAD
) -> list[Axes]:
    """A panel of throughput over time for each reading, below its title; returns the panels."""
    panels = list(figure.subplots(1, len(titled), sharey=True, squeeze=False)[0])
    for axes, (title, reading) in zip(panels, titled.items(), strict=True):
        draw_paths(axes, reading.series, colours, reading.values["seconds"])
        axes.set_title(title, fontsize=10)
    label(figure, colours, what)
    return panels


def draw_paths(
    axes: Axes, series: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str], seconds: float
) -> None:
    """The throughput of each path over ``seconds``, stacked; ``series`` are (seconds, Mbit/s) by path."""
    times = sorted({at for rates in series.values() for at, _ in rates})
    by_time = {path: dict(series.get(path, ())) for path in colours}
    heights = [[by_time[path].get(at, 0.0) for at in times] for path in colours]
    axes.stackplot(times, *heights, colors=list(colours.values()), linewidth=0)
    axes.set_xlim(0, seconds)
    tidy(axes, "y")


def tidy(axes: Axes, along: Literal["x", "y", "both"]) -> None:
    """A pale grid behind what is drawn, across the axis ``along``, and no frame where there is no axis."""
    axes.grid(axis=along, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def label(figure: Figure, colours: Mapping[str, str], what: str = _PAYLOAD) -> None:
    """Name the axes and the colours of a figure whose panels draw_paths() drew."""
    figure.supxlabel("seconds since the request")
    figure.supylabel(what)
    name_paths(figure, colours)


def name_paths(figure: Figure, colours: Mapping[str, str]) -> None:
    """A legend of the paths' colours."""
    handles = [Patch(color=colour, label=path) for path, colour in colours.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)
