"""A list that is asked for again and again (``--watch``), with rates from the differences between two looks."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from command import show
from command.show import Column, D, Listed, Selection
from tributary.api.documents import Document, Session, known_sum
from tributary.daemons.logs import printable
from tributary.settings.errors import CommandError
from tributary.settings.units import Duration

if TYPE_CHECKING:
    from rich.console import Console

_RATES = {"sent_rate": ("sent", 8), "received_rate": ("received", 8), "drop_rate": ("dropped", 1)}
"""Each rate, the counter that it follows from, and its factor: bits for bytes."""


def watch(
    name: str,
    look: Callable[[], Listed[D]],
    columns: tuple[Column[D], ...],
    selection: Selection,
    interval: Duration,
    console: "Console | None" = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the list again and again until Ctrl-C: on a terminal in its place and cut to its height.

    Raises CommandError if the first look does; a later one is shown, and the look repeated.
    """
    # Not at the top: see lists.show. The console, whose rates are these, draws no tables.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from command import tables

    console = console or Console()
    seen = look()
    # Before the screen is cleared: --sort may be wrong.
    show.chosen(seen.documents, columns, selection)
    # In a dumb terminal rich would draw nothing.
    redraws = console.is_terminal and not console.is_dumb_terminal and not selection.json
    live = Live(console=console, screen=True, auto_refresh=False) if redraws else None
    with live or nullcontext():
        shown = seen
        while True:
            if selection.json:
                show.print_json(name, shown, columns, selection, indent=None)
            elif live:
                live.update(tables.view(shown, columns, selection, room=console.height - 1), refresh=True)
            else:
                tables.print_view(shown, columns, selection, console)
            before = seen
            while True:
                sleep(interval.seconds)
                try:
                    seen = look()
                    break
                except CommandError as failure:
                    notice = Text(printable(f"{failure}: asked again"), "bold red")
                    if live:
                        live.update(notice, refresh=True)
                    else:
                        Console(stderr=True).print(notice)
            shown = with_rates(before, seen)


def with_rates(before: Listed[D] | None, after: Listed[D]) -> Listed[D]:
    """``after``, with the rates since ``before``; that of a counter that is not known or was set back is not known."""
    seconds = after.moment - before.moment if before else 0.0
    if before is None or seconds <= 0:
        return after
    old = {each.key: each for each in before.documents}
    return replace(after, documents=[_rated(each, old.get(each.key), seconds) for each in after.documents])


def _rated(new: D, old: D | None, seconds: float) -> D:
    if old is None:
        return new
    if isinstance(new, Session) and isinstance(old, Session):
        before = {each.key: each for each in old.subflows}
        subflows = tuple(_rated(each, before.get(each.key), seconds) for each in new.subflows)
        # One that is over takes its bytes with it: the sum of rates is right, the difference of sums is not.
        sums = {rate: known_sum([getattr(each, rate) for each in subflows]) for rate in ("sent_rate", "received_rate")}
        return new.model_copy(update={"subflows": subflows, **sums})
    return new.model_copy(update=_growth(new, old, seconds))


def _growth(new: Document, old: Document, seconds: float) -> dict[str, Any]:
    grown = {}
    for rate, (counter, factor) in _RATES.items():
        before, after = getattr(old, counter, None), getattr(new, counter, None)
        if rate in type(new).model_fields and before is not None and after is not None and after >= before:
            grown[rate] = (after - before) * factor / seconds
    return grown
