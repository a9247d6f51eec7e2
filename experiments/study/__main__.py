"""The command ``experiment``."""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.study.blueprint import need_captures, need_settings
from experiments.study.catalogue import BENCHMARKS, EVERYTHING, SCENARIOS, from_file, is_file
from experiments.study.changes import orders
from experiments.study.command import Allowed, add_measuring, add_results, exit_code, tell
from experiments.study.experiment import Experiment
from experiments.study.folder import Folder, Record
from experiments.study.order import Order
from experiments.study.readings import Verdict, name_of
from experiments.testbed import preflight
from experiments.testbed.build import alone, take_down_orphans
from experiments.testbed.native import measure_released
from experiments.testbed.profile import add_repeated
from tributary.settings.cli import Arguments, Contradiction, Subcommands, program, run, show
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Share

if TYPE_CHECKING:
    from experiments.hosts.settings import HostsSettings
    from experiments.study.run import Measuring

# What --help and list do without is imported where it is needed.
_DESCRIPTION = """\
Runs an experiment on network namespaces of this machine: measures, draws, and judges what came out against what the
paper claims. Makes one page of what all of them found.
"""
_RUN = """\
Measures, draws and judges one experiment, or all. Needs root.

A --set applies to each experiment that has its key; one that none of them has is refused.
"""
_RUN_END = """\
--sweep takes any experiment on a testbed over
  congestion, scheduler     the kernel's congestion controls and MPTCP schedulers, on client, gateway and server
  subflows                  how many further subflows both ends allow
  receive-buffer, send-buffer    the most of TCP's buffers, such as 0.5MB
  mtu                       the links' largest packet in bytes; below 1280 over IPv4 alone
  LINK.KEY                  a link's description, such as wireless.delay=15ms,60ms
  net.NAME                  any setting of the kernel, such as net.ipv4.tcp_ecn=0,1

--hosts measures on real machines, and needs no root here: docs/experiments-hosts.md says what it changes there.

Results go to results/experiment/NAME/TIME/: manifest.json, testbeds.jsonl, readings/*.json, values.csv, series.csv,
sending.csv, verdicts.json, plot.svg. A run that was stopped goes on where it stopped when it is asked for again in the
same way, with the same files; of all, those that had come to their end are measured anew. One of all that cannot be
measured is named at once, and the others go on: the command ends with the exit code of the first.

exit codes:
  0 no claim fails: each holds, or differs for a known reason; or there was none to judge
  1 a claim fails         64 wrong arguments
  3 none fails, and one is undecided: its 95 % interval has the bound in it; more repetitions make it narrower
  69 something is missing 71 the system refused       77 not root
  75 an experiment runs already, or a link is not as described (is the machine busy?)
  130 Ctrl-C, 143 SIGTERM: the testbed is removed, and what was measured is kept
"""
_REPORT = """\
Makes one HTML page from the newest whole run of each experiment: what the paper claims and what is expected, the
topology, the verdicts, the plot, all numbers with their intervals, the links as measured, the command to repeat it, and
the machine. The page needs no other file, no network and no script. Experiments that have not run are named as such.
Prints the name of the page. Needs no root, and measures nothing.
"""
_REPORT_END = """\
It reads DIR/experiment/NAME/TIME/ as `experiment run` wrote it, but no TIME.partial, which is not whole; or
DIR/experiment/NAME/ as `experiment publish` wrote it. A plot.svg that is missing is drawn again from the readings.

exit codes:
  0 the page is written, whether claims hold or not     64 wrong arguments, or links that are no longer described so
  66 there is no whole run, or one that cannot be read  71 the page cannot be written
"""

_PUBLISH = """\
Writes the newest whole run of each experiment in the form in which docs/results keeps it: DIR/experiment/NAME/ with
manifest.json, verdicts.json, plot.svg and readings.jsonl.xz, the testbeds and then a reading a line; and
DIR/report.html, of all that has been published there, and DIR/papers.md, the papers' figures beside ours. What was
published there before of an experiment is replaced.
`experiment report --results DIR` reads this form as well. Needs no root.
"""
_PUBLISH_END = """\
exit codes:
  0 published     64 wrong arguments     71 it cannot be written
  66 there is no whole run, or one that cannot be read
"""
_NEW = """\
Writes an experiment of your own to NAME.py in the current folder: under thirty lines, which run as they are. Needs no
root, and measures nothing.
"""
_NEW_END = """\
then:
  scripts/experiment run ./NAME.py --quick
  scripts/experiment report ./NAME.py

exit codes:
  0 written     64 wrong arguments, or the file is there already     71 it cannot be written
"""
_TEMPLATE = Path(__file__).parent / "template.py.txt"
_NAME = re.compile("[a-z][a-z0-9-]*")
_NAMED = 4
"""So many experiments are called by their names in an error."""


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="experiment", description=_DESCRIPTION)
    commands = Subcommands(made, "", metavar="list | new | run | report | publish")
    listing = commands.add("list", _list, "name the experiments", "Names the experiments.")
    listing.add_argument("--json", action="store_true", help="one JSON object on standard output")
    new = commands.add("new", _new, "write a file to make your own from", _NEW, _NEW_END)
    new.add_argument("name", type=_new_name, metavar="NAME", help="what to call it: a-z, 0-9 and -")
    _describe_run(commands.add("run", _run, "run one of them, or all", _RUN, _RUN_END))
    report = commands.add("report", _report, "make one page of what they found", _REPORT, _REPORT_END)
    about = "write what is worth keeping under version control"
    publish = commands.add("publish", _publish, about, _PUBLISH, _PUBLISH_END)
    for each in (report, publish):
        # Not by choices: argparse holds an empty list, too, against them.
        about = f"{', '.join(SCENARIOS)}, or a file of your own (default: all of these)"
        each.add_argument("names", nargs="*", type=_known, metavar="NAME", help=about)
        add_results(each, "where the results are")
    about = "the page to write (default: DIR/experiment/report.html)"
    report.add_argument("--output", type=Path, metavar="FILE", help=about)
    publish.add_argument("--to", type=Path, required=True, metavar="DIR", help="where to write them")
    return made


def _describe_run(parser: Arguments) -> None:
    known = ", ".join([*SCENARIOS, "all"])
    about = f"{known}, or a file of your own, such as ./mine.py"
    parser.add_argument("name", type=lambda name: name if name == "all" else _known(name), metavar="NAME", help=about)
    about = "change an option, such as size=20MB, or one of a link, such as wireless.delay=40ms; may be repeated"
    add_repeated(parser, "--set", "changes", "KEY=VALUE", about)
    about = "measure everything at each of these values, such as congestion=cubic,reno; may be repeated: see below"
    add_repeated(parser, "--sweep", "sweeps", "KEY=VALUE,...", about)
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="other access links than the experiment's (experiments/profiles/)"
    )
    parser.add_argument(
        "--hosts",
        type=Path,
        metavar="FILE",
        help="real machines, by SSH, and their links (experiments/hosts/hosts.toml)",
    )
    parser.add_argument("--repeat", type=int, metavar="COUNT", help="how often everything is measured (default: 3)")
    parser.add_argument(
        "--testbed", default="experiment", metavar="NAME", help="the testbed's name (default: experiment)"
    )
    add_measuring(parser, "the verdicts")
    parser.add_argument(
        "--pcap",
        action="store_true",
        help="keep what passes client, gateway and server, 128 bytes of each packet, in pcap/ of the results (tcpdump);"
        " it takes processor time from what is measured",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be measured, and do nothing")
    parser.gather("measuring", _measuring)


def _known(name: str) -> str:
    if name not in EVERYTHING and not is_file(name):
        raise argparse.ArgumentTypeError(f"{name}: accepted: {', '.join(EVERYTHING)}, or a file that ends in .py")
    return name


def _new_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in EVERYTHING:
        raise argparse.ArgumentTypeError(f"{name}: accepted: a-z, 0-9 and -, a letter first, and no experiment's here")
    return name


def _scenarios(names: Iterable[str]) -> list[Experiment]:
    return [from_file(Path(name)) if is_file(name) else EVERYTHING[name] for name in names]


def _list(json: bool) -> None:
    keys = ("paper", "claim", "expected")
    about = {name: {key: getattr(each, key) for key in keys} for name, each in SCENARIOS.items()}
    show(about, (f"{name:18} {each['paper']:20} {each['claim']}" for name, each in about.items()), as_json=json)


def _new(name: str) -> None:
    path = Path(f"{name}.py")
    try:
        with path.open("x") as file:
            file.write(_TEMPLATE.read_text().replace("NAME", name))
    except FileExistsError as error:
        raise CommandError(Exit.USAGE, f"{path} is there already: accepted: another name") from error
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error
    print(path)


def _measuring(testbed: str, results: Path, most_stolen: Share, tolerance: Share, pcap: bool) -> "Measuring":
    from rich.console import Console

    from experiments.study.run import Measuring

    allowed = Allowed(most_stolen, tolerance)
    return Measuring("experiment", testbed, results / "experiment", Console(stderr=True), allowed, pcap)


def _run(
    name: str,
    changes: Sequence[str],
    sweeps: Sequence[str],
    profile: Path | None,
    hosts: Path | None,
    repeat: int | None,
    quick: bool,
    measuring: "Measuring",
    json: bool,
    dry_run: bool,
) -> int:
    if measuring.pcap and hosts:
        raise Contradiction("--pcap and --hosts: accepted: one of them, nothing is captured on real machines")
    if profile and hosts:
        raise Contradiction("--profile and --hosts: accepted: one of them, real links are as they are")
    chosen = _scenarios(SCENARIOS if name == "all" else [name])
    ordered = partial(orders, changes=changes, quick=quick, repeat=repeat, sweeps=sweeps, over=profile)
    if hosts is not None:
        from experiments.hosts.settings import load_hosts
        from experiments.study.hosts import able

        settings = load_hosts(hosts)
        return _run_on_hosts(settings, partial(ordered, able(chosen, changes, sweeps)), measuring, json, dry_run)
    wanted = ordered(chosen)
    if measuring.pcap:
        need_captures(order.blueprint(point) for order in wanted for point in order.points)
    if dry_run:
        _show_orders(wanted)
        return 0
    preflight.need_all("experiment run")
    need_settings(order.blueprint(point) for order in wanted for point in order.points)
    with alone(measuring.name):
        take_down_orphans()
        return _perform(measuring, json, wanted)


def _run_on_hosts(
    settings: "HostsSettings", ordered: Callable[..., list[Order]], measuring: "Measuring", json: bool, dry_run: bool
) -> int:
    from experiments.hosts.testbed import connect, plan, unmeasured
    from experiments.study.hosts import place

    # Refused now, and not once machines are connected.
    wanted = ordered(profile=unmeasured(settings), place=place(settings))
    if dry_run:
        _show_orders(wanted)
        print("\n".join(plan(settings)))
        return 0
    name = measuring.name
    with connect(settings, name) as hosts:
        return _perform(measuring, json, ordered(profile=hosts.measured(name), place=place(settings, hosts)))


def _perform(measuring: "Measuring", as_json: bool, wanted: Sequence[Order]) -> int:
    measure_released()
    verdicts: dict[str, Sequence[Verdict]] = {}
    try:
        for order, outcome in measuring.perform_all(wanted):
            verdicts[order.experiment.name] = outcome.verdicts
    finally:
        if verdicts:
            _show(verdicts, as_json)
    return exit_code(verdict for each in verdicts.values() for verdict in each)


def _report(names: Sequence[str], results: Path, output: Path | None) -> None:
    results = results / "experiment"
    chosen = _chosen(names, results)
    _write_report(chosen, _records(chosen, results), output or results / "report.html")


def _publish(names: Sequence[str], results: Path, to: Path) -> None:
    from experiments.study.papers import table

    everything = to / "experiment"
    chosen = _chosen(names, results / "experiment")
    records = _records(chosen, results / "experiment")
    for name, record in records.items():
        record.publish(everything / name)
        print(everything / name)
    reported = {each.name: each for each in [*_chosen((), everything), *chosen]}
    kept = _records([*reported.values()], everything)
    _write_report([*reported.values()], kept, to / "report.html")
    _write(table(kept), to / "papers.md")


def _chosen(names: Sequence[str], results: Path) -> list[Experiment]:
    """Those of these ``names``; without any, every experiment, and the benchmarks that have run."""
    return _scenarios(names or [*SCENARIOS, *(name for name in BENCHMARKS if (results / name).exists())])


def _records(chosen: Sequence[Experiment], results: Path) -> dict[str, Record]:
    """The newest whole run of each that has one, or what was published of it; raises CommandError (66) if none has."""
    found = {}
    for scenario in chosen:
        folder = Folder.newest(results / scenario.name)
        record = folder.record() if folder else Record.published(results / scenario.name)
        if record:
            found[scenario.name] = record
    if not found:
        names = ", ".join(scenario.name for scenario in chosen) if len(chosen) <= _NAMED else "any experiment"
        raise CommandError(
            Exit.NO_INPUT,
            f"{results}: no whole run of {names}: scripts/experiment run NAME makes one;"
            " --results docs/results reads what is published",
        )
    return found


def _write_report(chosen: Sequence[Experiment], records: Mapping[str, Record], output: Path) -> None:
    from experiments.study.report import report

    _write(report(chosen, records, datetime.now(UTC)), output)


def _write(text: str, output: Path) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{output}: cannot be written: {error.strerror}") from error
    print(output)


def _show_orders(orders: Sequence[Order]) -> None:
    for order in orders:
        print(f"{order.experiment.name}: {len(order.points)} points, {order.experiment.repeat} times each")
        for point in order.points:
            print(f"  {name_of(point)}")


def _show(verdicts: Mapping[str, Sequence[Verdict]], as_json: bool) -> None:
    if as_json:
        print(dumps({name: [verdict.as_json() for verdict in each] for name, each in verdicts.items()}, indent=2))
        return
    from rich.console import Console

    console = Console()
    for name, each in verdicts.items():
        console.print(f"[bold]{name}[/]")
        tell(console, each)


main = program(parser)

if __name__ == "__main__":
    run(main, "experiment")
