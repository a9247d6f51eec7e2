"""What all plots have in common: one colour for each path, the same everywhere, and throughput over time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

# Okabe and Ito's colours, told apart by the colour-blind too.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def colours_of(paths: Iterable[str]) -> dict[str, str]:
    """The colours of ``paths``, which come in the order of their profile."""
    return {path: _PALETTE[number % len(_PALETTE)] for number, path in enumerate(paths)}


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


def label(figure: Figure, colours: Mapping[str, str]) -> None:
    """Name the axes and the colours of a figure whose panels draw_paths() drew."""
    figure.supxlabel("seconds since the request")
    figure.supylabel("payload, Mbit/s (paths stacked)")
    name_paths(figure, colours)


def name_paths(figure: Figure, colours: Mapping[str, str]) -> None:
    """A legend of the paths' colours."""
    handles = [Patch(color=colour, label=path) for path, colour in colours.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)
