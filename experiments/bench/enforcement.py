"""How long does it take from a join's third ACK to the first packet in the held class? One join after the other."""

from collections.abc import Callable
from statistics import median

from experiments.bench.result import Result, Series
from experiments.enforcement import watched
from experiments.fetch import fetch
from experiments.testbed.appliance import WIRED_SLOW, start_squid, start_throttler
from experiments.testbed.build import standing
from experiments.testbed.profile import DEFAULT
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import Profile
from settings.files import load


def enforcement(quick: bool, say: Callable[[str], None]) -> Result:
    """Thirty downloads of 5 MB, or five if ``quick``, each throttled from its join on."""
    file = random_file(5_000_000, seed=1)
    times = []
    with standing("bench", load(DEFAULT, Profile)) as testbed:
        start_server(testbed, file.path.parent)
        start_squid(testbed)
        start_throttler(testbed, WIRED_SLOW)
        for repetition in range(5 if quick else 30):
            with watched(testbed) as held:
                fetch(testbed, "held", file, "wired", mptcp=True)
            times.append(held().milliseconds)
            say(f"join {repetition + 1}: {times[-1]:.1f} ms")
    return Result(
        series=(Series("join to first held packet", "ms", tuple(times)),),
        values={"enforcement_p50_ms": median(times), "enforcement_max_ms": max(times)},
    )
