"""A run's plot as SVG: drawn from the readings alone, and made part of a page."""

import re
from base64 import b64encode
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PRECISE = re.compile(r"(?<!scale\()(?<![\d.])(\d+\.\d\d)\d+")
"""matplotlib writes millionths of a point: a quarter of the document says nothing that can be seen."""


def plot(name: str, draw: "Callable[[Figure], None]") -> str:
    """What ``draw`` draws of an experiment as an SVG document: the same bytes for the same readings, with letters as
    outlines, so that it needs no font.
    """
    # Here, since it takes a second, and most commands draw nothing.
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    draw(figure)
    document = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(document, format="svg", metadata={"Date": None})
    return _PRECISE.sub(r"\1", document.getvalue())


def resize(figure: "Figure", width: float, height: float) -> None:
    """Give a figure, or one of several of the same height below each other in a figure, its size, in inches."""
    whole = figure.get_figure(root=True)
    whole.set_size_inches(width, height * whole.bbox.height / figure.bbox.height)


def inline(document: str, label: str) -> Markup:
    """The SVG ``document`` as an image of an HTML page, in the page itself; ``label`` is read out in its place."""
    encoded = b64encode(document.encode()).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(label, encoded)
