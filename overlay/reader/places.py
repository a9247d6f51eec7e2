"""Nodes as points of a plane, by the delays between them. Pure."""

from collections.abc import Mapping, Sequence
from math import atan2, cos, hypot, inf, isfinite, sin, sqrt
from operator import mul

Matrix = Sequence[Sequence[float]]
Vector = Sequence[float]

_ITERATIONS = 100
"""From always the same start: a map is like the last one where the delays are."""


def places(delays: Matrix) -> list[tuple[float, float]]:
    """A point in the plane for each node, with distances as near to ``delays`` (square, symmetric) as possible.

    Classical multidimensional scaling: Torgerson, Psychometrika 17 (1952).
    """
    squares = [[delay**2 for delay in row] for row in delays]
    means = [sum(row) / len(row) for row in squares]
    mean = sum(means) / len(means)
    products = [
        [(of_row + of_column - mean - square) / 2 for of_column, square in zip(means, row, strict=True)]
        for of_row, row in zip(means, squares, strict=True)
    ]
    first, second = _strongest(products)
    return list(zip(first, second, strict=True))


def _strongest(matrix: Matrix) -> tuple[Vector, Vector]:
    """The eigenvectors of its two largest eigenvalues, as long as these' roots, by orthogonal iteration."""
    # With so much on the diagonal no eigenvalue is negative (Gershgorin).
    shift = max(sum(map(abs, row)) - abs(row[at]) - row[at] for at, row in enumerate(matrix))
    shift = max(shift, 1e-9)
    one, other = [sin(1 + at) for at in range(len(matrix))], [cos(3 * at) for at in range(len(matrix))]
    for _ in range(_ITERATIONS):
        one = _unit(_sum(_times(matrix, one), shift, one))
        other = _sum(_times(matrix, other), shift, other)
        other = _unit(_sum(other, -_dot(one, other), one))
    images = _times(matrix, one), _times(matrix, other)
    strengths = _dot(one, images[0]), _dot(other, images[1])
    # The two span a plane, in which they may still be turned.
    turn = atan2(2 * _dot(one, images[1]), strengths[0] - strengths[1]) / 2
    centre, spread = sum(strengths) / 2, hypot(_dot(one, images[1]), (strengths[0] - strengths[1]) / 2)
    lengths = [sqrt(max(0.0, strength)) for strength in (centre + spread, centre - spread)]
    turned = _sum([cos(turn) * each for each in one], sin(turn), other)
    across = _sum([cos(turn) * each for each in other], -sin(turn), one)
    return [lengths[0] * each for each in turned], [lengths[1] * each for each in across]


def _dot(a: Vector, b: Vector) -> float:
    return float(sum(map(mul, a, b)))


def _times(matrix: Matrix, vector: Vector) -> list[float]:
    return [_dot(row, vector) for row in matrix]


def _sum(a: Vector, factor: float, b: Vector) -> list[float]:
    return [of_a + factor * of_b for of_a, of_b in zip(a, b, strict=True)]


def _unit(vector: Vector) -> list[float]:
    length = hypot(*vector) or 1.0
    return [each / length for each in vector]


def filled(names: Sequence[str], measured: Mapping[tuple[str, str], float]) -> Matrix:
    """All delays between ``names``: those of pairs that are not measured by the shortest way over measured ones.

    Pairs without a way are as far from each other as the farthest that have one.
    """
    delays = [[0.0 if a == b else inf for b in names] for a in names]
    at = {name: index for index, name in enumerate(names)}
    for (a, b), delay in measured.items():
        if a in at and b in at:
            delays[at[a]][at[b]] = delays[at[b]][at[a]] = delay
    for via in range(len(names)):
        onwards = delays[via]
        delays = [_shorter(row, row[via], onwards) for row in delays]
    farthest = max((delay for row in delays for delay in row if isfinite(delay)), default=0.0)
    return [[delay if isfinite(delay) else farthest for delay in row] for row in delays]


def _shorter(row: Vector, delay: float, onwards: Vector) -> list[float]:
    return [known if known <= delay + on else delay + on for known, on in zip(row, onwards, strict=True)]
