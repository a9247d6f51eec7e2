"""Does the throttler hold what it promises? Rates of one MPTCP subflow in both directions, and a quota.

Everything is in Ethernet frames, as the policy's rates are. They are counted behind the hold, where the receiving node
takes them in: by nftables' counters in the hook prerouting, to which each frame's header of 14 bytes is added.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

from experiments.bench import pair
from experiments.bench.flows import BESIDE_PORT, HELD, HELD_PORT, flow, rule, serving
from experiments.bench.result import Result, Series
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from tributary.settings.failure import Exit, Failure
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


@dataclass(frozen=True)
class Extent:
    """Which rates, and for how many seconds each is let settle and is measured; the quota and its time."""

    rates: tuple[str, ...]
    settle: float
    measure: float
    quota: str
    quota_seconds: float


_FULL = Extent(("256kbit", "1mbit", "10mbit", "100mbit", "1gbit"), 2, 10, "20MB", 12)
_QUICK = Extent(("1mbit", "100mbit"), 1, 3, "5MB", 5)
_BEFORE_CUT, _AFTER_CUT = "50mbit", "1mbit"


@dataclass(frozen=True)
class Sample:
    """Bytes that had passed at ``at`` seconds on a monotonic clock."""

    at: float
    passed: int


def accuracy(quick: bool, say: Callable[[str], None]) -> Result:
    """Five rates for ten seconds each, alone and beside plain TCP, both ways; two for three seconds if ``quick``."""
    extent = _QUICK if quick else _FULL
    reached: dict[str, list[float]] = {}
    errors: list[float] = []
    with pair.pair(pair.NAME) as testbed, serving(testbed):
        for rate, direction, beside in product(extent.rates, _DIRECTIONS, (False, True)):
            measured = _held(testbed, extent, rate, direction, beside)
            reached.setdefault(f"{direction}: {rate}", []).append(measured / 1e6)
            errors.append(_error(measured, PositiveRate.parse(rate).amount))
            name = f"{direction}{' beside TCP' if beside else ''}: {rate}"
            say(f"{name}: {measured / 1e6:.3f} Mbit/s ({errors[-1]:+.2f} %)")
        quota = _quota_error(testbed, extent)
        say(f"quota: {quota:+.2f} %")
    return Result(
        series=tuple(Series(name, "Mbit/s", tuple(numbers)) for name, numbers in reached.items()),
        values={"rate_error_pct_max": max(map(abs, errors)), "quota_error_pct": quota},
    )


def _error(measured: float, wanted: float) -> float:
    return 100 * (measured / wanted - 1)


def _held(testbed: Testbed, extent: Extent, rate: str, direction: str, beside: bool) -> float:
    """Bits per second of frames that one held MPTCP subflow reached."""
    seconds = extent.settle + extent.measure + 30
    with ExitStack() as stack:
        stack.enter_context(pair.throttling(testbed, rule(rate, direction)))
        read = stack.enter_context(_counted(testbed, direction))
        if beside:
            stack.enter_context(flow(testbed, BESIDE_PORT, direction, seconds, "--pace", str(_BESIDE_PACE)))
        stack.enter_context(flow(testbed, HELD_PORT, direction, seconds, *HELD))
        time.sleep(extent.settle)
        first = read()
        time.sleep(extent.measure)
        return _bits_per_second(first, read())


def _quota_error(testbed: Testbed, extent: Extent) -> float:
    """By how many per cent more than the quota passed before the cut."""
    with ExitStack() as stack:
        stack.enter_context(pair.throttling(testbed, quota_rule(extent.quota)))
        read = stack.enter_context(_counted(testbed, "download", header=0))
        stack.enter_context(flow(testbed, HELD_PORT, "download", extent.quota_seconds + 30, *HELD))
        samples, end = [read()], time.monotonic() + extent.quota_seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            samples.append(read())
    return _error(before_cut(samples, PositiveRate.parse(_AFTER_CUT).amount), Size.parse(extent.quota).amount)


def before_cut(samples: Sequence[Sample], rate_after: float) -> float:
    """Bytes that had passed when the rate fell to ``rate_after`` bits per second.

    The cut is where the line of the steep part, from a fifth to two thirds of all bytes, meets one of that rate through
    the last sample. Raises Failure (exit 1) if the last samples are not that slow.
    """
    last = samples[-1]
    if _bits_per_second(samples[-len(samples) // 5], last) > 1.5 * rate_after:
        raise Failure(Exit.WRONG_RESULT, "the quota was used up, and the rate did not fall")
    steep = [sample for sample in samples if last.passed / 5 <= sample.passed <= last.passed * 2 / 3]
    if len(steep) < 2:
        raise Failure(Exit.WRONG_RESULT, "what passed before the quota was used up came too fast to be measured")
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
    table = testbed.directory / "counter.nft"
    table.write_text(_COUNTER.format(table=_TABLE, side=side, port=HELD_PORT))
    node.run("nft", "-f", str(table))
    try:
        yield lambda: _sample(node, header)
    finally:
        node.run("nft", "delete", "table", "inet", _TABLE)


def _sample(node: Node, header: int) -> Sample:
    before = time.monotonic()
    printed = json.loads(node.run("nft", "-j", "list", "counter", "inet", _TABLE, "held"))
    counter = next(entry["counter"] for entry in printed["nftables"] if "counter" in entry)
    # The kernel read it at some time between the two.
    return Sample((before + time.monotonic()) / 2, counter["bytes"] + header * counter["packets"])


def quota_rule(quota: str) -> str:
    """The policy's rule that holds a client to less when it has had ``quota``."""
    return rule(_BEFORE_CUT, "download") + f'quota = "{quota} per month"\nthen = "{_AFTER_CUT}"\nscope = "client"\n'
