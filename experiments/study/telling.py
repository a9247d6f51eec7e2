"""How verdicts are told to who ran the command."""

from collections.abc import Iterable

from rich.console import Console

from experiments.study.readings import Verdict


def tell(console: Console, verdicts: Iterable[Verdict]) -> None:
    """A line for each, and one more for what explains it."""
    for verdict in verdicts:
        mark = "[green]holds[/]" if verdict.holds else "[red]FAILS[/]"
        line = f"{mark}  {verdict.claim}: {verdict.bound}, measured {verdict.measured}"
        console.print(line, highlight=False, soft_wrap=True)
        if verdict.because:
            console.print(f"       because: {verdict.because}", highlight=False, soft_wrap=True)
