"""The demo's plot: throughput of each path over time, one panel a download."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.demo.summary import LEGACY_WIRED, LEGACY_WIRELESS, MPTCP, NATIVE, THROTTLED, WIRED, WIRELESS, Run
from experiments.record import Download

# Okabe and Ito's colours, told apart by the colour-blind too; a path has the same one everywhere.
COLOURS = {WIRED: "#0072B2", WIRELESS: "#E69F00"}

_TITLES = {
    LEGACY_WIRED: "legacy TCP over wired",
    LEGACY_WIRELESS: "legacy TCP over wireless",
    MPTCP: "MPTCP through Squid",
    NATIVE: "MPTCP, native converter",
    THROTTLED: "MPTCP, wired throttled",
}


def plot(run: Run, path: Path) -> None:
    """Draw ``run`` into a PNG at ``path``."""
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    # Two rows: by one link, and by both.
    rows = [[LEGACY_WIRED, LEGACY_WIRELESS, "."], [MPTCP, NATIVE, THROTTLED]]
    panels: dict[str, Axes] = figure.subplot_mosaic(rows, sharey=True)
    for name, title in _TITLES.items():
        axes = panels[name]
        download = run.downloads[name]
        _draw(axes, download)
        axes.set_title(f"{title}: {download.mbps:.1f} Mbit/s, {download.seconds:.1f} s", fontsize=10)
    _mark(panels[THROTTLED], run)
    figure.supxlabel("seconds since the request")
    figure.supylabel("payload, Mbit/s (paths stacked)")
    handles = [matplotlib.patches.Patch(color=colour, label=path) for path, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=120)


def _draw(axes: Axes, download: Download) -> None:
    times: list[float] = []
    series: dict[str, list[float]] = {path: [] for path in COLOURS}
    for at, path, _, rate in download.rates():
        if not times or times[-1] != at:
            times.append(at)
            for values in series.values():
                values.append(0.0)
        series[path][-1] = rate
    axes.stackplot(times, *series.values(), colors=list(COLOURS.values()), linewidth=0)
    axes.set_xlim(0, download.seconds)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


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
