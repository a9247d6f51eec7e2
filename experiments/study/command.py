"""What every command that measures is given, and how it tells verdicts to who ran it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.study.readings import Decision, Verdict
from experiments.testbed.profile import add_tolerance
from tributary.paths import ROOT
from tributary.settings.cli import Arguments
from tributary.settings.errors import Exit
from tributary.settings.units import Share

if TYPE_CHECKING:
    from rich.console import Console

_MOST_STOLEN = Share(20_000)
"""While 3 % were taken a process woke up 15 ms too late."""


@dataclass(frozen=True)
class Allowed:
    """A hypervisor may take the share ``most_stolen`` of the processors' time during a reading; a link may be off its
    description by the share ``tolerance``.
    """

    most_stolen: Share
    tolerance: Share

    def as_json(self) -> dict[str, object]:
        return {"most_stolen": str(self.most_stolen), "tolerance": str(self.tolerance)}


def add_measuring(parser: Arguments, printed: str) -> None:
    """--quick, --results, those of Allowed, and --json, which prints what is ``printed``."""
    parser.add_argument("--quick", action="store_true", help="less of everything, to see that it works")
    add_results(parser, "where to put them")
    parser.add_argument(
        "--most-stolen",
        type=Share.argument,
        default=_MOST_STOLEN,
        metavar="SHARE",
        help="of the processors' time, by a hypervisor; beyond, a reading is taken again (default: %(default)s)",
    )
    add_tolerance(parser)
    parser.add_argument("--json", action="store_true", help=f"print {printed} as one JSON object on standard output")


def add_results(parser: Arguments, what: str) -> None:
    """Their folder."""
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results", metavar="DIR", help=f"{what} (default: results/)"
    )


_MARKS = {
    Decision.HOLDS: "[green]holds[/]",
    Decision.FAILS: "[red]FAILS[/]",
    Decision.UNDECIDED: "[yellow]undecided[/]",
    Decision.DIFFERS: "[cyan]differs[/]",
}


def tell(console: "Console", verdicts: Iterable[Verdict]) -> None:
    """A line for each, and one more for what explains it."""
    for verdict in verdicts:
        line = f"{_MARKS[verdict.decision]}  {verdict.claim}: {verdict.bound}, measured {verdict.measured}"
        console.print(line, highlight=False, soft_wrap=True)
        if verdict.because:
            console.print(f"       because: {verdict.because}", highlight=False, soft_wrap=True)


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """What a command that judged them ends with: 1 if one fails, 3 if one is undecided, 0 if all hold or differ."""
    decisions = {verdict.decision for verdict in verdicts}
    if Decision.FAILS in decisions:
        return Exit.WRONG_RESULT
    return Exit.UNDECIDED if Decision.UNDECIDED in decisions else 0
