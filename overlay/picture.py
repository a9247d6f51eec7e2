"""A picture of an overlay: nodes placed by their delays, and the links that chains take. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from overlay.reader.places import places

_FEW = 40
"""The most nodes whose labels do not overlap."""
_IN_USE, _CHAIN = "#56B4E9", "#D55E00"


def draw(figure: Figure, answer: Mapping[str, Any], chain: Sequence[str] = ()) -> None:
    """Draws the program's answer to ``map``: a link is wider the more pairs use it; ``chain`` is drawn on top."""
    figure.set_size_inches(9, 9)
    axes = figure.subplots()
    at = dict(zip(answer["nodes"], places(answer["delays_ms"]), strict=True))
    most = max((link["pairs"] for link in answer["links"]), default=1)
    for link in answer["links"]:
        line = np.array([at[link["a"]], at[link["b"]]]).T
        axes.plot(*line, color=_IN_USE, linewidth=0.4 + 4 * link["pairs"] / most, alpha=0.6, zorder=1)
    for hop in pairwise(chain):
        axes.plot(*np.array([at[node] for node in hop]).T, color=_CHAIN, linewidth=2, zorder=2)
    x, y = np.array(list(at.values())).T
    axes.scatter(x, y, s=18, color="black", zorder=3)
    for name in answer["nodes"] if len(answer["nodes"]) <= _FEW else chain:
        axes.annotate(name, at[name], xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=4)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("ms")
    axes.set_ylabel("ms")
    axes.spines[["top", "right"]].set_visible(False)
    title = f"links of the best chains for {answer['rounds']} rounds, wider for more pairs"
    axes.set_title(f"{title}\n{' - '.join(chain)}" if chain else title, fontsize=9)
