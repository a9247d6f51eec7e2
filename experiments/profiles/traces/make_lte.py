"""Makes lte.trace, ten seconds of a downlink that varies as LTE's do: python experiments/profiles/traces/make_lte.py.

The rate is a random walk with a new step every 100 ms, from 2 to 30 Mbit/s, and a silence of 100 ms, as when a cell
hands over to the next. From these the trace gets 10,000 opportunities at random: 12 Mbit/s on average. It is no
recording, and nobody's network.
"""

import math
from pathlib import Path
from random import Random

_SECONDS, _OPPORTUNITIES, _STEP_MS, _SEED = 10, 10_000, 100, 1
_LEAST, _MOST, _STRIDE = 2.0, 30.0, 0.25  # Mbit/s, Mbit/s, standard deviation of the logarithm
_SILENT_STEP = 60


def levels(random: Random) -> list[float]:
    """The rate in each step, in Mbit/s before it is scaled to the mean."""
    level, walked = 12.0, []
    for step in range(1000 * _SECONDS // _STEP_MS):
        level = min(_MOST, max(_LEAST, level * math.exp(random.gauss(0, _STRIDE))))
        walked.append(0.0 if step == _SILENT_STEP else level)
    return walked


def times(random: Random) -> list[int]:
    """The trace: milliseconds, the last of which is its length."""
    weights = [level for level in levels(random) for _ in range(_STEP_MS)]
    length = len(weights)
    return [*sorted(random.choices(range(1, length + 1), weights, k=_OPPORTUNITIES - 1)), length]


if __name__ == "__main__":
    text = "".join(f"{time}\n" for time in times(Random(_SEED)))
    Path(__file__).with_name("lte.trace").write_text(text, encoding="ascii")
