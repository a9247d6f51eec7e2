"""A run's plot as SVG: drawn from the readings alone, and made part of a page."""

import re
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_PRECISE = re.compile(r"(?<!scale\()(?<![\d.])(\d+\.\d\d)\d+")
"""matplotlib writes millionths of a point: a quarter of the document says nothing that can be seen."""
_DROPPED = {f"{_SVG}{tag}" for tag in ("metadata", "style", "script")}


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


def inline(document: str, prefix: str, label: str) -> Markup:
    """The SVG ``document`` as an element of an HTML page, which sets its size; ``label`` is read out in its place.

    Each id gets ``prefix``, because matplotlib gives the same ones to every plot. Its style sheet, which would hold for
    the whole page, becomes a property of the element.
    """
    root = ElementTree.fromstring(document)
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = {key.replace(_HREF, "href"): _renamed(key, value, prefix) for key, value in element.items()}
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-label": label, "style": "stroke-linejoin: round"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _renamed(key: str, value: str, prefix: str) -> str:
    """An attribute's ``value`` with ``prefix`` before the id that it is or refers to."""
    if key == "id":
        return f"{prefix}-{value}"
    if key == _HREF:
        return value.replace("#", f"#{prefix}-", 1)
    return value.replace("url(#", f"url(#{prefix}-")
