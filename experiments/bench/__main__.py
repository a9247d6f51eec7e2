"""The command ``bench``: experiments whose points are contenders, told by their medians and ratios."""

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.bench.parts import MEASUREMENTS, PEERS
from experiments.study.catalogue import EVERYTHING
from experiments.study.command import Allowed, add_measuring
from tributary.settings.cli import Arguments, Subcommands, program, run, show, some_of
from tributary.settings.errors import CommandError, Exit

if TYPE_CHECKING:
    from experiments.study.metrics import Metric
    from experiments.study.order import Order

_DESCRIPTION = """\
Runs a benchmark on network namespaces of this machine, ours beside its peers in the same run, and prints medians and
ratios: machines differ, ratios less so. Needs root.
"""
_EPILOG = """\
--json prints one object: "ratios" (ours to each peer, larger is better), "values" (the unit is in each key's name),
"series" (every single measurement), "missing" (peers that are not installed, to which there is no ratio) and "machine".

Results go to results/experiment/EXPERIMENT/TIME/, as those of scripts/experiment do, whose report has them too. A run
that was stopped goes on where it stopped when it is asked for again in the same way. Of several experiments one that
cannot be measured is named at once, and the others go on: the command ends with the exit code of the first.
"""
_TESTBED = "bench"
_ABOUT = {
    "aggregation": "MPTCP through Squid over both links, against legacy TCP over each",
    "enforcement": "from a join's third ACK on the wire to its enforcement, at 1,000 joins a second",
    "converter": "the native converter beside Squid, HAProxy, Varnish, nginx and a plain relay",
    "converter-growth": "connections and requests beside 100 to 50,000 open ones: rates, instructions, system calls",
    "throttler-scale": "memory, time and throughput with 100,000 throttled subflows",
    "queueing-delay": "how long packets wait in a held class, and would in a long queue",
    "converter-soak": "ten minutes of random connections through it: bytes, ends, memory, descriptors",
    "acceleration": "split TCP: short transfers, set-up, start, memory; one core beside Varnish, HAProxy, nginx",
    "overlay": "chains of all pairs, a look-up; a converter started by a client; a dead node; `offload`",
    "offload": "processor time and throughput before and after a relay offloads to the kernel",
    "offload-soak": "transfers over a link that loses and reorders, until their relay has left 10,000 in their midst",
    "handoff": "requests handed over with their connections, beside nginx and HAProxy as proxies and back ends alone",
    "handoff-soak": "a million requests for random objects that are handed over: is every byte of every answer right?",
    "steering": "links drawn by lot, beside the best one alone and the sum; what steering costs, and how soon it acts",
    "home": (
        "a home router's links bonded through tunnels, beside the plain leg; a cut link, a revoked router, their cost"
    ),
    "console": "what it takes beside 10,000 sessions, with 100 pages open",
    "accuracy": "held rates and a quota against what passes on the wire",
}
_OF = {
    "aggregation": ("multipath",),
    "acceleration": (
        "acceleration",
        "acceleration-setup",
        "acceleration-start",
        "bench-acceleration-instances",
        "bench-acceleration-one-core",
    ),
    "overlay": ("bench-overlay", "bench-overlay-on-demand", "bench-overlay-node-out", "bench-offload"),
    "handoff": ("handoff-sizes",),
    "steering": ("never-below", "bench-steered"),
    "home": ("home",),
}
"""Experiments by their names in the catalogue, whose figures a benchmark tells together: without any, its own."""


def parser() -> Arguments:
    """Both commands and their arguments."""
    made = Arguments(prog="bench", description=_DESCRIPTION, epilog=_EPILOG)
    commands = Subcommands(made, _EPILOG, metavar="list | run")
    listing = commands.add("list", _list, "name the benchmarks", "Names the benchmarks.")
    listing.add_argument("--json", action="store_true", help="one JSON object: what each is about, by its name")
    measure = commands.add("run", _run, "run one of them", _DESCRIPTION)
    measure.add_argument("name", choices=_ABOUT, metavar="NAME", help=", ".join(_ABOUT))
    only = f"of converter, some measurements: {', '.join(MEASUREMENTS)}"
    measure.add_argument("--only", type=some_of(MEASUREMENTS), default=(), metavar="NAME,...", help=only)
    peers = f"of converter, beside some peers: {', '.join(PEERS)}"
    measure.add_argument("--peers", type=some_of(PEERS), default=(), metavar="NAME,...", help=peers)
    add_measuring(measure, "the figures")
    measure.gather("allowed", Allowed)
    return made


def _list(json: bool) -> None:
    show(_ABOUT, (f"{name:20} {about}" for name, about in _ABOUT.items()), as_json=json)


def _run(
    name: str, only: Sequence[str], peers: Sequence[str], quick: bool, results: Path, allowed: Allowed, json: bool
) -> None:
    # Here and below, not at the top: what measures takes a second to load, and help measures nothing.
    from experiments.study.changes import orders
    from experiments.testbed import preflight
    from experiments.testbed.build import alone, take_down_orphans
    from experiments.testbed.native import measure_released

    if (only or peers) and name != "converter":
        raise CommandError(Exit.USAGE, f"{name}: --only and --peers: accepted with converter alone")
    parts = {"only": only, "peers": peers}
    changes = [f"{option}={','.join(names)}" for option, names in parts.items() if names]
    preflight.need_all("bench run")
    measure_released()
    wanted = orders([EVERYTHING[each] for each in _OF.get(name, (f"bench-{name}",))], changes, quick)
    with alone(_TESTBED):
        take_down_orphans()
        _measure(name, wanted, results / "experiment", allowed, json)


def _measure(name: str, wanted: "Sequence[Order]", results: Path, allowed: Allowed, as_json: bool) -> None:
    """Shows what the experiments give together, and the peers that are missing: of those that could be measured."""
    from rich.console import Console

    from experiments.study.metrics import missing
    from experiments.study.run import Measuring

    metrics: list[Metric] = []
    absent: dict[str, None] = {}
    done = 0
    try:
        measuring = Measuring("bench", _TESTBED, results, Console(stderr=True), allowed)
        for order, outcome in measuring.perform_all(wanted):
            done += 1
            metrics += order.experiment.quoted(outcome.readings)
            absent |= dict.fromkeys(missing(outcome.readings))
    finally:
        if done:
            _show(name, metrics, [*absent], as_json)


def _show(name: str, metrics: "Sequence[Metric]", absent: Sequence[str], json: bool) -> None:
    if json:
        from experiments.results import machine
        from experiments.study.metrics import as_json

        print(dumps({**as_json(metrics), "missing": absent, "machine": machine()}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "median", "least", "most", "unit", title=name)
    for each in metrics:
        table.add_row(
            each.name, *(f"{number:.3f}" for number in (each.median, min(each.numbers), max(each.numbers))), each.unit
        )
    console = Console()
    console.print(table)
    if absent:
        console.print(f"not here, and left out: {', '.join(absent)}", highlight=False)


main = program(parser)

if __name__ == "__main__":
    run(main, "bench")
