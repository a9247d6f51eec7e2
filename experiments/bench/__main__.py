"""The command ``bench``: every benchmark is registered here."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.table import Table

from experiments.bench.accuracy import accuracy
from experiments.bench.aggregation import aggregation
from experiments.bench.converter import PARTS, converter
from experiments.bench.converter.soak import soak
from experiments.bench.enforcement import enforcement
from experiments.bench.overlay import overlay
from experiments.bench.parts import Parts, names
from experiments.bench.queueing_delay import queueing_delay
from experiments.bench.result import Result
from experiments.bench.throttler_scale import throttler_scale
from experiments.results import machine
from experiments.testbed import preflight
from experiments.testbed.build import take_down_orphans
from tributary.settings.entry import Arguments, run
from tributary.settings.failure import Exit, Failure

_DESCRIPTION = """\
Runs a benchmark on network namespaces of this machine, ours beside its peers in the same run, and prints medians and
ratios: machines differ, ratios less so. Needs root.
"""
_EPILOG = """\
--json prints one object: "ratios" (ours to each peer, larger is better), "values" (the unit is in each key's name),
"series" (every single measurement), "missing" (peers that are not installed, to which there is no ratio) and "machine".
"""


@dataclass(frozen=True)
class Benchmark:
    """``measure`` is called with whether to be quick and with a function that tells of progress; ``parts`` are those
    that can be measured alone.
    """

    measure: Callable[[bool, Callable[[str], None]], Result]
    about: str
    parts: Parts | None = None


def _acceleration(quick: bool, say: Callable[[str], None]) -> Result:
    # Not at the top: its scenarios bring what draws, which takes a second to load.
    from experiments.bench.acceleration import acceleration

    return acceleration(quick, say)


BENCHMARKS = {
    "aggregation": Benchmark(aggregation, "MPTCP through Squid over both links, against legacy TCP over each"),
    "enforcement": Benchmark(
        enforcement, "from a join's third ACK on the wire to its enforcement, at 1,000 joins a second"
    ),
    "converter": Benchmark(
        converter, "the native converter beside Squid, HAProxy, Varnish, nginx and a plain relay", PARTS
    ),
    "throttler-scale": Benchmark(throttler_scale, "memory, time and throughput with 100,000 throttled subflows"),
    "queueing-delay": Benchmark(queueing_delay, "how long packets wait in a held class, and would in a long queue"),
    "converter-soak": Benchmark(soak, "ten minutes of random connections through it: bytes, ends, memory, descriptors"),
    "acceleration": Benchmark(
        _acceleration, "split TCP: short transfers, set-up, start, memory; one core beside Varnish, HAProxy, nginx"
    ),
    "overlay": Benchmark(overlay, "chains of all pairs of 115 and 315 nodes, one changed link, a look-up"),
    "accuracy": Benchmark(accuracy, "held rates and a quota against what passes on the wire"),
}


@dataclass(frozen=True)
class Run:
    """``bench run``; ``name`` is a benchmark's, ``only`` and ``peers`` are those of its parts."""

    name: str
    quick: bool
    json: bool
    only: Sequence[str]
    peers: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """``bench list``."""


def main(arguments: Sequence[str]) -> int:
    """Run one ``bench`` command; returns its exit code."""
    return parser().perform(arguments)


def parser() -> Arguments:
    """Both commands and their arguments."""
    made = Arguments(prog="bench", description=_DESCRIPTION, epilog=_EPILOG)
    commands = made.add_subparsers(required=True, metavar="list | run")
    listing = commands.add_parser("list", help="name the benchmarks", description="Names the benchmarks.")
    listing.does(Listing, _list)
    measure = commands.add_parser("run", help="run one of them", description=_DESCRIPTION, epilog=_EPILOG)
    measure.does(Run, _run)
    measure.add_argument("name", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    measure.add_argument("--quick", action="store_true", help="fewer and shorter measurements, to see that it works")
    measure.add_argument("--json", action="store_true", help="one JSON object on standard output")
    only = f"of converter, some measurements: {', '.join(PARTS.measurements)}"
    measure.add_argument("--only", type=names, default=(), metavar="NAME,...", help=only)
    peers = f"of converter, beside some peers: {', '.join(PARTS.peers)}"
    measure.add_argument("--peers", type=names, default=(), metavar="NAME,...", help=peers)
    return made


def _list(_options: Listing) -> None:
    for name, benchmark in BENCHMARKS.items():
        print(f"{name:20} {benchmark.about}")


def _run(options: Run) -> None:
    measure = _wanted(options)
    preflight.need_all("bench run")
    take_down_orphans()
    console = Console(stderr=True)
    result = measure(options.quick, console.print)
    if options.json:
        print(json.dumps(_as_json(result), indent=2))
    else:
        _show(options.name, result)


def _wanted(options: Run) -> Callable[[bool, Callable[[str], None]], Result]:
    """The benchmark, or the parts of it that are asked for; raises Failure (exit 64) if it has no such parts."""
    benchmark = BENCHMARKS[options.name]
    if not (options.only or options.peers):
        return benchmark.measure
    if benchmark.parts is None:
        raise Failure(Exit.USAGE, f"{options.name}: --only and --peers: accepted with converter alone")
    return partial(benchmark.parts.measure, benchmark.parts.selected(options.only, options.peers))


def _as_json(result: Result) -> dict[str, object]:
    return {
        "ratios": {name: round(ratio, 4) for name, ratio in result.ratios.items()},
        "values": {name: round(value, 4) for name, value in result.values.items()},
        "series": [{"name": each.name, "unit": each.unit, "numbers": each.numbers} for each in result.series],
        "missing": list(result.missing),
        "machine": machine(),
    }


def _show(name: str, result: Result) -> None:
    table = Table("", "median", "least", "most", "unit", title=name)
    for each in result.series:
        numbers = (each.median, min(each.numbers), max(each.numbers))
        table.add_row(each.name, *(f"{number:.1f}" for number in numbers), each.unit)
    console = Console()
    console.print(table)
    for key, number in (result.ratios | result.values).items():
        console.print(f"{key} = {number:.3f}", highlight=False)
    if result.missing:
        console.print(f"not here, and left out: {', '.join(result.missing)}", highlight=False)


def command() -> None:
    """The whole command: ends the process."""
    run(main, "bench")


if __name__ == "__main__":
    command()
