"""A plot that is drawn from readings."""

from experiments.scenarios.legacy import Legacy
from experiments.study.plot import inline, plot
from tests.unit.scenarios.made_up import readings, topology
from tests.unit.scenarios.test_legacy import good


def test_the_same_readings_give_the_same_bytes() -> None:
    links, taken = topology(Legacy), readings(Legacy, good)
    first, again = (plot("legacy", lambda figure: Legacy().draw(figure, links, taken)) for _ in range(2))
    assert first == again
    # Outlines, which need no font.
    assert "<text" not in first


def test_ids_and_what_refers_to_them_get_the_prefix() -> None:
    document = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
        <style>* {fill: red}</style>
        <path id="m"/><use xlink:href="#m" clip-path="url(#c)" style="fill: url(#h); stroke: red"/></svg>"""
    element = inline(document, "one", "a <plot>")
    assert '<path id="one-m" />' in element
    assert 'href="#one-m" clip-path="url(#one-c)" style="fill: url(#one-h); stroke: red"' in element
    assert 'aria-label="a &lt;plot&gt;"' in element
    assert "style>" not in element
