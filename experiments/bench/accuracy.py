"""Does the throttler hold what it promises? Rates of one MPTCP subflow in both directions, and a quota.

Everything is in Ethernet frames, as the policy's rates are. They are counted behind the hold, where the receiving node
takes them in: by nftables' counters in the hook prerouting, to which each frame's header of 14 bytes is added.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pydantic import Field

from experiments.bench import pair
from experiments.bench.pair import BESIDE_PORT, HELD, HELD_PORT, flow, held, serving
from experiments.study.experiment import Experiment, Rates, Repeat, Seconds
from experiments.study.metrics import Metric
from experiments.study.readings import Point, Reading, Readings, every
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate, Size

_DIRECTIONS = ("download", "upload")
_BESIDE_PACE = 20_000_000  # bits per second of the plain TCP connection beside the held subflow
_FRAME_HEADER = 14
_TABLE = "bench"
_COUNTER = """\
table inet {table} {{
    counter held {{ }}
    chain seen {{
        type filter hook prerouting priority raw; policy accept;
        tcp {side} {port} counter name held
    }}
}}
"""


_BEFORE_CUT, _AFTER_CUT = "50mbit", "1mbit"
_ALONE, _BESIDE = "nothing", "plain TCP"


@dataclass(frozen=True)
class Sample:
    """Bytes that had passed at ``at`` seconds on a monotonic clock."""

    at: float
    passed: int


class Accuracy(Experiment):
    """Each of the ``rates`` has ``settle`` seconds until it is measured for ``seconds``; and the ``quota`` its own."""

    claim = "Are rates held, both ways, alone and beside other traffic, and is a quota cut where it ends?"
    quick = {"rates": "1mbit,100mbit", "settle": 1.0, "seconds": 3.0, "quota": "5MB", "quota_seconds": 5.0}
    ground = pair.PAIR

    repeat: Repeat = 1
    rates: Rates = tuple(PositiveRate.parse(rate) for rate in ("256kbit", "1mbit", "10mbit", "100mbit", "1gbit"))
    settle: Seconds = 2.0
    seconds: Seconds = 10.0
    quota: Size = Field(default=Size(20_000_000), description="a size, such as '20MB'")
    quota_seconds: Seconds = 12.0

    def points(self, _topology: Topology) -> list[Point]:
        rates = every(rate=self.rates, direction=_DIRECTIONS, beside=(_ALONE, _BESIDE))
        return [*rates, {"quota": str(self.quota)}]

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """``error_percent``: by how much more passes than it should; and the ``mbps`` of a rate."""
        with serving(testbed):
            if "quota" in point:
                return Reading(point, repetition, {"error_percent": self._quota_error(testbed)})
            reached = self._held(testbed, point)
        error = _error(reached, PositiveRate.parse(point["rate"]).amount)
        return Reading(point, repetition, {"mbps": reached / 1e6, "error_percent": error})

    def metrics(self, readings: Readings) -> list[Metric]:
        rates = Readings(reading for reading in readings if "rate" in reading.point)
        each = sorted({(reading.point["direction"], PositiveRate.parse(reading.point["rate"])) for reading in rates})
        return [
            *(
                Metric(f"{way}: {rate}", rates.at(direction=way, rate=str(rate)).values("mbps"), "Mbit/s")
                for way, rate in each
            ),
            Metric("rate_error_pct_max", [max(map(abs, rates.values("error_percent")))], "%"),
            Metric("quota_error_pct", [r.values["error_percent"] for r in readings if "quota" in r.point]),
        ]

    def _held(self, testbed: Testbed, point: Point) -> float:
        """Bits per second of frames that one held MPTCP subflow reached."""
        seconds, direction = self.settle + self.seconds + 30, point["direction"]
        with ExitStack() as stack:
            stack.enter_context(pair.throttling(testbed, held(point["rate"], direction)))
            read = stack.enter_context(_counted(testbed, direction))
            if point["beside"] == _BESIDE:
                stack.enter_context(flow(testbed, BESIDE_PORT, direction, seconds, "--rate-limit", str(_BESIDE_PACE)))
            stack.enter_context(flow(testbed, HELD_PORT, direction, seconds, *HELD))
            time.sleep(self.settle)
            first = read()
            time.sleep(self.seconds)
            return _bits_per_second(first, read())

    def _quota_error(self, testbed: Testbed) -> float:
        """By how many per cent more than the quota passed before the cut."""
        with ExitStack() as stack:
            stack.enter_context(pair.throttling(testbed, quota_rule(str(self.quota))))
            read = stack.enter_context(_counted(testbed, "download", header=0))
            stack.enter_context(flow(testbed, HELD_PORT, "download", self.quota_seconds + 30, *HELD))
            samples, end = [read()], time.monotonic() + self.quota_seconds
            while time.monotonic() < end:
                time.sleep(0.1)
                samples.append(read())
        return _error(before_cut(samples, PositiveRate.parse(_AFTER_CUT).amount), self.quota.amount)


def _error(measured: float, wanted: float) -> float:
    return 100 * (measured / wanted - 1)


def before_cut(samples: Sequence[Sample], rate_after: float) -> float:
    """Bytes that had passed when the rate fell to ``rate_after`` bits per second.

    The cut is where the line of the steep part, from a fifth to two thirds of all bytes, meets one of that rate through
    the last sample. Raises CommandError (exit 1) if the last samples are not that slow.
    """
    last = samples[-1]
    if _bits_per_second(samples[-len(samples) // 5], last) > 1.5 * rate_after:
        raise CommandError(Exit.WRONG_RESULT, "the quota was used up, and the rate did not fall")
    steep = [sample for sample in samples if last.passed / 5 <= sample.passed <= last.passed * 2 / 3]
    if len(steep) < 2:
        raise CommandError(Exit.WRONG_RESULT, "what passed before the quota was used up came too fast to be measured")
    slope, slope_after = _bits_per_second(steep[0], steep[-1]) / 8, rate_after / 8
    from_last = (last.passed - steep[-1].passed - slope * (last.at - steep[-1].at)) / (slope - slope_after)
    return last.passed + slope_after * from_last


def _bits_per_second(first: Sample, last: Sample) -> float:
    return 8 * (last.passed - first.passed) / (last.at - first.at)


@contextmanager
def _counted(testbed: Testbed, direction: str, header: int = _FRAME_HEADER) -> Iterator[Callable[[], Sample]]:
    """A function that reads what has passed of the held port, on the node that takes it in.

    To each IP packet so many bytes of ``header`` are added: rates are of Ethernet frames, quotas of IP packets.
    """
    node, side = (testbed.client, "sport") if direction == "download" else (testbed.gateway, "dport")
    node.run("nft", _COUNTER.format(table=_TABLE, side=side, port=HELD_PORT))

    def read() -> Sample:
        before = time.monotonic()
        printed = node.told("nft", "-j", "list", "counter", "inet", _TABLE, "held")
        counter = next(entry["counter"] for entry in printed["nftables"] if "counter" in entry)
        # The kernel read it at some time between the two.
        return Sample((before + time.monotonic()) / 2, counter["bytes"] + header * counter["packets"])

    try:
        yield read
    finally:
        node.run("nft", "delete", "table", "inet", _TABLE)


def quota_rule(quota: str) -> dict[str, object]:
    """The policy's rule that holds a client to less when it has had ``quota``."""
    less = {"quota": f"{quota} per month", "over_quota_rate": _AFTER_CUT, "shared_by": "client"}
    return held(_BEFORE_CUT, "download") | less
