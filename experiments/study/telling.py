"""How verdicts are told to who ran the command."""

from collections.abc import Iterable

from rich.console import Console

from experiments.study.readings import Decision, Verdict
from tributary.settings.errors import Exit

_MARKS = {
    Decision.HOLDS: "[green]holds[/]",
    Decision.FAILS: "[red]FAILS[/]",
    Decision.UNDECIDED: "[yellow]undecided[/]",
    Decision.DIFFERS: "[cyan]differs[/]",
}


def tell(console: Console, verdicts: Iterable[Verdict]) -> None:
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
