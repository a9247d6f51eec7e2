"""Documents as tables that line up, in the terminal."""

from collections.abc import Sequence
from typing import cast

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from command.show import Column, D, Listed, Selection, chosen
from tributary.daemons.logs import printable


def print_view(
    listed: Listed[D], columns: Sequence[Column[D]], selection: Selection, console: Console | None = None
) -> None:
    """Print a table; no cell is cut, even if its lines get longer than the terminal's."""
    console = console or Console()
    shown = view(listed, columns, selection)
    console.width = max(console.width, _least_width(cast(Table, shown.renderables[0]), console.is_terminal))
    console.print(shown, highlight=False)


def _least_width(table: Table, may_fold: bool) -> int:
    """Columns of text that the table takes; its last column may fold between words."""
    cells = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    widths = [max(map(cell_len, column), default=0) for column in cells]
    if may_fold:
        widths[-1:] = [max((cell_len(word) for cell in cells[-1] for word in cell.split()), default=0)]
    # Beside each column rich counts a blank on both sides, also at the edges, where it prints none.
    return sum(widths) + 2 * len(widths)


def view(listed: Listed[D], columns: Sequence[Column[D]], selection: Selection, room: int | None = None) -> Group:
    """A table, in ``room`` lines, and below it how many there are if it has not all of them."""
    shown = chosen(listed.documents, columns, selection)
    if room is not None and len(shown) > room - 1:
        shown = shown[: max(1, room - 2)]
    total = listed.in_all
    cut = [Text(f"the first {len(shown):,} of {total:,}", "dim")] if len(shown) < total else []
    return Group(table(shown, columns), *cut)


def table(documents: Sequence[D], columns: Sequence[Column[D]]) -> Table:
    """With the columns of which anything is known."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    cells = {column.title: [printable(column.cell(each)) for each in documents] for column in columns}
    kept = [column for column in columns if any(cells[column.title]) or not documents]
    for column in kept:
        made.add_column(column.title, justify="left" if column.text is str else "right", no_wrap=column is not kept[-1])
    for row in zip(*(cells[column.title] for column in kept), strict=True):
        made.add_row(*row)
    return made
