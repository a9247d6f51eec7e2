"""How long do packets wait in a held class, with the throttler's short leaf and with HTB's own long queue?

The round-trip time is that of the held subflow itself while it carries all that it can, as its socket measures it; the
cables add nothing to speak of. A long queue's delay is what applications and MPTCP's scheduler would meet.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack

from experiments.bench import pair
from experiments.bench.flows import HELD, HELD_PORT, flow, rule, serving
from experiments.bench.result import Result, Series
from experiments.testbed.appliance import lengthen_held_queue, throttler_status
from experiments.testbed.build import Testbed
from tributary.settings.failure import Exit, Failure

_RATE = "5mbit"
_SETTLE, _BETWEEN = 2.0, 0.25


def queueing_delay(quick: bool, say: Callable[[str], None]) -> Result:
    """A bulk download held to 5 Mbit/s, ten seconds with each leaf in turn, twice; three, once, if ``quick``."""
    seconds, repetitions = (3, 1) if quick else (10, 2)
    found: dict[str, list[float]] = {"throttler": [], "pfifo": []}
    with pair.pair(pair.NAME) as testbed, serving(testbed):
        for name in [*found] * repetitions:
            times = _round_trips(testbed, seconds, plain=name == "pfifo")
            say(f"{name}: {min(times):.1f} to {max(times):.1f} ms")
            found[name] += times
    series = {name: Series(name, "ms", tuple(times)) for name, times in found.items()}
    short, long = (series[name].median for name in ("throttler", "pfifo"))
    return Result(
        series=tuple(series.values()),
        ratios={"delay_pfifo_vs_throttler": long / short},
        values={"delay_throttler_ms": short, "delay_pfifo_ms": long},
    )


def _round_trips(testbed: Testbed, seconds: float, plain: bool) -> list[float]:
    """Milliseconds, four times a second."""
    with ExitStack() as stack:
        stack.enter_context(pair.throttling(testbed, rule(_RATE, "download")))
        stack.enter_context(flow(testbed, HELD_PORT, "download", seconds + 30, *HELD))
        time.sleep(_SETTLE)
        if plain:
            lengthen_held_queue(testbed)
            time.sleep(_SETTLE)
        end, times = time.monotonic() + seconds, []
        while time.monotonic() < end:
            times.append(_round_trip(testbed))
            time.sleep(_BETWEEN)
        return times


def _round_trip(testbed: Testbed) -> float:
    for session in throttler_status(testbed).sessions:
        for subflow in session.subflows:
            if subflow.download and subflow.rtt_us is not None:
                return subflow.rtt_us / 1000
    raise Failure(Exit.WRONG_RESULT, "the throttler holds no subflow of the bulk download")
