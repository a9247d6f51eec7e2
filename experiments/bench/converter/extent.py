"""How much is measured, in full and quickly."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """``bulk_bytes`` in all of a measurement; ``seconds`` of each measurement that takes a time."""

    repetitions: int
    bulk_bytes: int
    many: tuple[int, ...]
    seconds: float
    starts: int
    idle: int
    """Connections that every contender holds, for what one costs."""
    held: int
    """Connections that ours holds at once."""


FULL = Extent(5, 1_000_000_000, (8, 64), 3.0, 20, 2000, 20_000)
QUICK = Extent(2, 300_000_000, (8,), 0.5, 3, 500, 2000)
