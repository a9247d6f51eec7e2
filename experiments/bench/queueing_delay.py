"""How long do packets wait in a held class, with the throttler's short leaf and with HTB's own long queue?

The round-trip time is that of the held subflow itself while it carries all that it can, as its socket measures it; the
cables add nothing to speak of. A long queue's delay is what applications and MPTCP's scheduler would meet.
"""

import time
from statistics import median

from experiments.bench import pair
from experiments.bench.pair import HELD, HELD_PORT, flow, held, serving
from experiments.study.experiment import Experiment, Repeat, Seconds
from experiments.study.metrics import RATIO, Metric
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed.appliance import held_round_trip, lengthen_held_queue
from experiments.testbed.build import Testbed

_RATE = "5mbit"
_SETTLE, _BETWEEN = 2.0, 0.25
_OURS, _LONG = "throttler", "pfifo"


class QueueingDelay(Experiment):
    """A bulk download held to 5 Mbit/s, for ``seconds`` with each leaf in turn."""

    claim = "How long do packets wait in a held class, and would in a long queue?"
    quick = {"repeat": 1, "seconds": 3.0}
    at = [{"leaf": leaf} for leaf in (_OURS, _LONG)]
    ground = pair.PAIR

    repeat: Repeat = 2
    seconds: Seconds = 10.0

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        with serving(testbed):
            times = _round_trips(testbed, self.seconds, plain=point["leaf"] == _LONG)
        return Reading(point, repetition, {"rtt_ms": median(times)}, samples={"rtt_ms": times})

    def metrics(self, readings: Readings) -> list[Metric]:
        by_leaf = [Metric(f"delay_{leaf}_ms", readings.at(leaf=leaf).samples("rtt_ms")) for leaf in (_OURS, _LONG)]
        short, long = (metric.median for metric in by_leaf)
        return [*by_leaf, Metric("delay_pfifo_vs_throttler", [long / short], RATIO)]


def _round_trips(testbed: Testbed, seconds: float, plain: bool) -> list[float]:
    """Milliseconds, four times a second."""
    download = flow(testbed, HELD_PORT, "download", seconds + 30, *HELD)
    with pair.throttling(testbed, held(_RATE, "download")), download:
        time.sleep(_SETTLE)
        if plain:
            lengthen_held_queue(testbed)
            time.sleep(_SETTLE)
        end, times = time.monotonic() + seconds, []
        while time.monotonic() < end:
            times.append(held_round_trip(testbed))
            time.sleep(_BETWEEN)
        return times
