from math import dist

import pytest
from matplotlib.figure import Figure

from overlay.picture import draw
from overlay.reader.places import places

# Three corners of a right triangle, and a node in the middle of its long side.
DELAYS = [[0, 30, 40, 25], [30, 0, 50, 25], [40, 50, 0, 25], [25, 25, 25, 0]]
ANSWER = {
    "rounds": 5,
    "nodes": ["a", "b", "c", "d"],
    "delays_ms": DELAYS,
    "links": [{"a": "a", "b": "d", "pairs": 3}, {"a": "b", "b": "d", "pairs": 6}],
}


def test_nodes_are_as_far_from_each_other_as_their_delays_as_far_as_a_plane_has_room() -> None:
    found = places(DELAYS)
    for point, delays in zip(found, DELAYS, strict=True):
        assert [dist(point, other) for other in found] == pytest.approx(delays, abs=1e-6)
    found = places([[0, 100, 1], [100, 0, 1], [1, 1, 0]])
    assert dist(found[0], found[1]) == pytest.approx(100, rel=0.1)
    together = places([[0, 0], [0, 0]])
    assert dist(*together) == pytest.approx(0, abs=1e-3)


def test_a_link_is_the_wider_the_more_pairs_take_it_and_the_chain_lies_over_them() -> None:
    figure = Figure()
    draw(figure, ANSWER, ["a", "d", "b"])
    (axes,) = figure.axes
    few, many, first, second = axes.lines
    assert few.get_linewidth() < many.get_linewidth()
    assert first.get_color() == second.get_color() != many.get_color()
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c", "d"]
    assert "a - d - b" in axes.get_title()
