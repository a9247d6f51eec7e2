"""The command ``experiment``."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.results import ROOT
from experiments.study.catalogue import SCENARIOS
from experiments.study.readings import Verdict, name_of
from experiments.study.run import Order, perform
from experiments.study.scenario import Scenario
from experiments.testbed import preflight
from experiments.testbed.build import take_down_orphans
from experiments.testbed.profile import changed
from experiments.testbed.topology import Profile
from settings.entry import Arguments, run
from settings.failure import Exit, Failure
from settings.files import check, read

_DESCRIPTION = """\
Runs an experiment on network namespaces of this machine: measures, draws, and judges what came out against what the
paper claims. Needs root.
"""
_EPILOG = """\
Results go to results/experiment/NAME/TIME/: manifest.json, testbeds.jsonl, readings/*.json, values.csv, series.csv,
verdicts.json, plot.svg. A run that was stopped goes on where it stopped when it is asked for again in the same way.

exit codes:
  0 every claim holds     1 a claim does not hold, or a link is not as described     64 wrong arguments
  69 something is missing 71 the system refused                                      75 an experiment runs already
  77 not root
  130 Ctrl-C, 143 SIGTERM: the testbed is removed, and what was measured is kept
"""


def main(arguments: Sequence[str]) -> int:
    """Run one ``experiment`` command; returns its exit code."""
    parsed = _parser().parse_args(arguments)
    if parsed.command == "list":
        _list(parsed.json)
        return 0
    names = list(SCENARIOS) if parsed.name == "all" else [parsed.name]
    orders = [_order(SCENARIOS[name], parsed) for name in names]
    if parsed.dry_run:
        _show_orders(orders)
        return 0
    preflight.need_all("experiment run")
    take_down_orphans()
    console = Console(stderr=True)
    verdicts = {
        order.scenario.name: perform(order, parsed.testbed, parsed.results / "experiment", console) for order in orders
    }
    if parsed.json:
        print(json.dumps({name: [verdict.as_json() for verdict in each] for name, each in verdicts.items()}, indent=2))
    else:
        _show(verdicts)
    return 0 if all(verdict.holds for each in verdicts.values() for verdict in each) else Exit.WRONG_RESULT


def _parser() -> Arguments:
    parser = Arguments(prog="experiment", description=_DESCRIPTION, epilog=_EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | run")
    listing = commands.add_parser("list", help="name the experiments")
    listing.add_argument("--json", action="store_true", help="one JSON object on standard output")
    measure = commands.add_parser("run", help="run one of them, or all", epilog=_EPILOG)
    measure.add_argument("name", choices=[*SCENARIOS, "all"], metavar="NAME", help=", ".join([*SCENARIOS, "all"]))
    measure.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change an option, such as size=20MB, or one of a link, such as wireless.delay=40ms; may be repeated",
    )
    measure.add_argument("--repeat", type=int, metavar="COUNT", help="how often everything is measured (default: 3)")
    measure.add_argument("--quick", action="store_true", help="less of everything, to see that it works")
    measure.add_argument("--results", type=Path, default=ROOT / "results", help="where to put them (default: results/)")
    measure.add_argument(
        "--testbed", default="experiment", metavar="NAME", help="the testbed's name (default: experiment)"
    )
    measure.add_argument("--dry-run", action="store_true", help="print what would be measured, and do nothing")
    measure.add_argument("--json", action="store_true", help="print the verdicts as one JSON object on standard output")
    return parser


def _order(scenario: Scenario[Any], arguments: argparse.Namespace) -> Order:
    """What to do for ``scenario``; raises Failure with exit 64 if a setting is not one of its."""
    of_links = [change for change in arguments.set if "." in change.partition("=")[0]]
    document: dict[str, Any] = dict(scenario.quick) if arguments.quick else {}
    for change in arguments.set:
        if change not in of_links:
            key, equals, value = change.partition("=")
            if not equals:
                raise Failure(Exit.USAGE, f"--set {change}: accepted: KEY=VALUE, such as size=20MB")
            document[key] = _number_or_text(value)
    if arguments.repeat is not None:
        document["repeat"] = arguments.repeat
    where = f"{scenario.name}: --set"
    profile = check(changed(read(scenario.profile), of_links), Profile, where)
    return Order(scenario, check(document, scenario.options, where), profile)


def _number_or_text(value: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value


def _list(as_json: bool) -> None:
    if as_json:
        keys = ("paper", "claim", "expected")
        about = {name: {key: getattr(each, key) for key in keys} for name, each in SCENARIOS.items()}
        print(json.dumps(about, indent=2))
        return
    for name, scenario in SCENARIOS.items():
        print(f"{name:18} {scenario.paper:10} {scenario.claim}")


def _show_orders(orders: Sequence[Order]) -> None:
    for order in orders:
        print(f"{order.scenario.name}: {len(order.points)} points, {order.options.repeat} times each")
        for point in order.points:
            print(f"  {name_of(point)}")


def _show(verdicts: Mapping[str, Sequence[Verdict]]) -> None:
    console = Console()
    for name, each in verdicts.items():
        console.print(f"[bold]{name}[/]")
        for verdict in each:
            mark = "[green]holds[/]" if verdict.holds else "[red]FAILS[/]"
            line = f"{mark}  {verdict.claim}: {verdict.bound}, measured {verdict.measured}"
            console.print(line, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run(main, "experiment")
