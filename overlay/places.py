"""Nodes as points of a plane, by the delays between them. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def places(delays: NDArray[np.float64]) -> NDArray[np.float64]:
    """A point in the plane for each node, with distances as near to ``delays`` (square, symmetric) as possible.

    Classical multidimensional scaling: Torgerson, Psychometrika 17 (1952).
    """
    squares = delays**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    strengths, directions = np.linalg.eigh(-centred / 2)
    placed: NDArray[np.float64] = directions[:, -2:] * np.sqrt(np.maximum(strengths[-2:], 0))
    return placed


def filled(names: Sequence[str], measured: Mapping[tuple[str, str], float]) -> NDArray[np.float64]:
    """All delays between ``names``: those of pairs that are not measured by the shortest way over measured ones.

    Pairs without a way are as far from each other as the farthest that have one.
    """
    delays = np.full((len(names), len(names)), np.inf)
    np.fill_diagonal(delays, 0)
    at = {name: index for index, name in enumerate(names)}
    for (a, b), delay in measured.items():
        if a in at and b in at:
            delays[at[a], at[b]] = delays[at[b], at[a]] = delay
    for via in range(len(names)):
        delays = np.minimum(delays, delays[:, via, None] + delays[None, via, :])
    known = delays[np.isfinite(delays)]
    return np.where(np.isfinite(delays), delays, known.max(initial=0.0))
