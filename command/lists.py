"""The commands that show a list: its arguments, and how it is shown, once or again and again, in pages."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from command.show import Column, D, Listed, Selection, print_json
from tributary.api.documents import Session
from tributary.api.places import MOST_SESSIONS
from tributary.settings.cli import Arguments, whole_number
from tributary.settings.units import Duration


class Interval(Duration):
    """Time between two looks, or of a trial, in microseconds. The daemons make no more than four answers a second."""

    ACCEPTED = "a time with its unit (ms, s) from '500ms' to '3600s', such as '1s'"
    LEAST, MOST = 500 * 10**3, 3600 * 10**6


@dataclass(frozen=True)
class Listing(Selection):
    """How a list is shown; with ``watch`` again and again."""

    watch: Interval | None = None


def add_arguments(listing: Arguments) -> None:
    """Add those of ``Listing`` to a command's, whose function gets them as ``listing``."""
    listing.gather("listing", Listing)
    listing.add_argument("--json", action="store_true", help="JSON instead of text (docs/api.md)")
    listing.add_argument("--sort", metavar="COLUMN", help="by this column; from the largest with --sort=-COLUMN")
    listing.add_argument("--limit", type=whole_number(1, 1_000_000), metavar="N", help="at most so many rows")
    listing.add_argument(
        "--watch",
        nargs="?",
        type=Interval.argument,
        const=Interval.parse("1s"),
        metavar="INTERVAL",
        help="show it again and again, with rates, until Ctrl-C (default: 1s)",
    )


def now(documents: Sequence[D]) -> Listed[D]:
    """All there are, counted now."""
    return Listed(documents, time.monotonic())


def show(name: str, listed: Listed[D], columns: Sequence[Column[D]], selection: Selection) -> None:
    """Print the documents, which JSON calls ``name``; raises CommandError, exit 64, for a column that is not there."""
    if selection.json:
        print_json(name, listed, columns, selection)
        return
    # Not at the top: a quarter of a command's start is the library that draws tables.
    from command import tables

    tables.print_view(listed, columns, selection)


def show_list(
    name: str,
    look: Callable[[], Listed[D]],
    columns: tuple[Column[D], ...],
    listing: Listing,
    fastest_first: bool = True,
) -> None:
    """Show what ``look`` finds as the list ``name``: once, or as ``--watch`` has it."""
    every = listing.watch
    if every is None:
        show(name, look(), columns, listing)
        return
    if listing.sort is None and fastest_first and any(column.title == "sending" for column in columns):
        listing = replace(listing, sort="-sending")
    # Not at the top: see show().
    from command.watch import watch

    watch(name, look, columns, listing, every)


def first(page: Callable[..., Listed[Session]], limit: int | None) -> Listed[Session]:
    """The first ``limit`` sessions, or those of one answer; ``page`` takes an ``offset``.

    Each is one look: a session that moves from page to page meanwhile is listed once, or not at all.
    """
    found = page()
    sessions = {each.token: each for each in found.documents}
    for offset in range(MOST_SESSIONS, min(limit or MOST_SESSIONS, found.total), MOST_SESSIONS):
        sessions |= {each.token: each for each in page(offset=offset).documents}
    return replace(found, documents=list(sessions.values()))
