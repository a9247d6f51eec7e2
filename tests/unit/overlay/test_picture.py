"""A picture of an overlay: where its nodes are, and which links are drawn."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from overlay.picture import draw
from overlay.places import places

# Three corners of a right triangle, and a node in the middle of its long side.
DELAYS = np.array([[0, 30, 40, 25], [30, 0, 50, 25], [40, 50, 0, 25], [25, 25, 25, 0]], float)
ANSWER = {
    "rounds": 5,
    "nodes": ["a", "b", "c", "d"],
    "delays_ms": DELAYS.tolist(),
    "links": [{"a": "a", "b": "d", "pairs": 3}, {"a": "b", "b": "d", "pairs": 6}],
}


def test_nodes_are_as_far_from_each_other_as_their_delays_where_a_plane_has_room() -> None:
    found = places(DELAYS)
    assert np.linalg.norm(found[:, None] - found[None, :], axis=2) == pytest.approx(DELAYS, abs=1e-6)


def test_delays_that_no_plane_has_are_placed_all_the_same() -> None:
    detour = np.array([[0, 100, 1], [100, 0, 1], [1, 1, 0]], float)
    assert np.isfinite(places(detour)).all()


def test_a_link_is_the_wider_the_more_pairs_take_it_and_the_chain_lies_over_them() -> None:
    figure = Figure()
    draw(figure, ANSWER, ["a", "d", "b"])
    (axes,) = figure.axes
    few, many, first, second = axes.lines
    assert few.get_linewidth() < many.get_linewidth()
    assert first.get_color() == second.get_color() != many.get_color()
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c", "d"]
    assert "a - d - b" in axes.get_title()
