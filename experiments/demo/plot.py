"""The demo's plot: throughput of each path over time, one panel a download."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.demo.summary import LEGACY_WIRED, LEGACY_WIRELESS, MPTCP, NATIVE, THROTTLED, WAYS, WIRED, WIRELESS, Run
from experiments.plots import colours_of, draw_paths, label

COLOURS = colours_of((WIRED, WIRELESS))


def plot(run: Run, path: Path) -> None:
    """Draw ``run`` into a PNG at ``path``."""
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    # Two rows: by one link, and by both.
    rows = [[LEGACY_WIRED, LEGACY_WIRELESS, "."], [MPTCP, NATIVE, THROTTLED]]
    panels: dict[str, Axes] = figure.subplot_mosaic(rows, sharey=True)
    for way in WAYS:
        axes, download = panels[way.name], run.downloads[way.name]
        draw_paths(axes, download.series(), COLOURS, download.seconds)
        axes.set_title(f"{way.title}: {download.mbps:.1f} Mbit/s, {download.seconds:.1f} s", fontsize=10)
    _mark(panels[THROTTLED], run)
    label(figure, COLOURS)
    figure.savefig(path, dpi=120)


def _mark(axes: Axes, run: Run) -> None:
    axes.axvline(run.throttled_after, color="black", linestyle="--", linewidth=1)
    axes.annotate(
        f"wired held to {run.held_mbps:g} Mbit/s\n{run.enforcement.milliseconds:.1f} ms after the join",
        xy=(run.throttled_after, axes.get_ylim()[1] * 0.8),
        xytext=(0.08, 0.75),
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "->"},
        fontsize=9,
    )
