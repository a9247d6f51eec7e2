"""A list that is asked for again and again, with rates from the differences between two looks (``--watch``)."""

import time
from collections.abc import Callable
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live
from rich.text import Text

from command import show
from command.rates import with_rates
from command.show import Column, D, Listed, Selection
from tributary.daemons.logs import printable
from tributary.settings.errors import CommandError
from tributary.settings.units import Duration


class Interval(Duration):
    """Time between two looks, or of a trial, in microseconds. The daemons make no more than four answers a second."""

    ACCEPTED = "a time with its unit (ms, s) from '500ms' to '3600s', such as '1s'"
    LEAST, MOST = 500 * 10**3, 3600 * 10**6


def watch(
    name: str,
    look: Callable[[], Listed[D]],
    columns: tuple[Column[D], ...],
    selection: Selection,
    interval: Interval,
    console: Console | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the list again and again until Ctrl-C: on a terminal in its place and cut to its height.

    Raises CommandError if the first look does; a later one is shown, and the look repeated.
    """
    console = console or Console()
    seen = look()
    # Before the screen is cleared: --sort may be wrong.
    show.chosen(seen.documents, columns, selection)
    live = (
        Live(console=console, screen=True, auto_refresh=False) if console.is_terminal and not selection.json else None
    )
    with live or nullcontext():
        shown = seen
        while True:
            if selection.json:
                show.print_json(name, shown, columns, selection, indent=None)
            elif live:
                live.update(show.view(shown, columns, selection, room=console.height - 1), refresh=True)
            else:
                show.print_view(console, shown, columns, selection)
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
