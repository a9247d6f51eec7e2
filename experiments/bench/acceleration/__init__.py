"""What split TCP brings and costs: the figures of Miniproxy (HotMiddlebox 2016), and one core beside its peers.

Transfers of 10 and 25 kB over 100 ms through one to three converters; the time that connections take to stand, many at
once and beside many that stand already; from the converter's start to its first connection, and its memory; and one
download through one processor, by plain TCP, beside Varnish, HAProxy and nginx.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from experiments.bench.acceleration.gains import gains
from experiments.bench.acceleration.one_core import PEERS, one_core
from experiments.bench.acceleration.standing import set_up
from experiments.bench.acceleration.starting import starting
from experiments.bench.acceleration.tenants import tenants
from experiments.bench.converter.contenders import NATIVE
from experiments.bench.pair import NAME
from experiments.bench.result import Result
from experiments.study.figures import Series
from experiments.testbed.cables import laid_out
from experiments.testbed.native import build


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    repetitions: int
    transfers: int
    """Of each size, in each repetition."""
    at_once: tuple[int, ...]
    """Connections."""
    starts: int
    tenants: tuple[int, ...]
    """Instances."""
    bulk_bytes: int


_FULL = Extent(5, 7, (30, 80, 130, 180, 230, 1000, 5000), 30, (1, 100, 1000), 2_000_000_000)
_QUICK = Extent(1, 2, (30, 230), 3, (1, 10), 200_000_000)


def acceleration(quick: bool, say: Callable[[str], None]) -> Result:
    """Five repetitions of everything, or less of it once if ``quick``; medians and ratios."""
    extent = _QUICK if quick else _FULL
    say("building the converter")
    programs = build(released=True)
    series, values = gains(extent.repetitions, extent.transfers, say)
    with laid_out(programs, NAME) as blueprint:
        started, costs = starting(blueprint, extent.starts, say)
        stood, took = set_up(blueprint, extent.at_once, extent.repetitions, say)
    many, memory = tenants(programs, extent.tenants, say)
    series += started + stood + many
    values |= costs | took | memory
    moved = one_core(programs, extent.bulk_bytes, extent.repetitions, say)
    series += [Series(f"one core, {name}", "Mbit/s", tuple(numbers)) for name, numbers in moved.items()]
    ratios = {
        f"bulk_vs_{peer}": median(ours / theirs for ours, theirs in zip(moved[NATIVE], moved[peer], strict=True))
        for peer in PEERS
        if peer in moved
    }
    return Result(tuple(series), ratios, values, tuple(peer for peer in PEERS if peer not in moved))
