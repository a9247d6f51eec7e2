"""Formats a daemon's answers for people: folded lists of facts, times, numbers."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from tributary.daemons.logs import printable

ARROW = ">"
_STEPS = ("", "k", "M", "G", "T", "P")


def folded(facts: Sequence[str], indent: int, width: int) -> Iterator[Text]:
    """``facts`` in lines of ``width`` columns, separated by commas, except after an arrow."""
    line = Text(" " * indent)
    empty = True
    for number, fact in enumerate(facts):
        comma = "" if number == len(facts) - 1 or fact.endswith(ARROW) else ","
        piece = Text(printable(fact) + comma)
        if not empty and line.cell_len + 1 + piece.cell_len > width:
            yield line
            line, empty = Text(" " * (indent + 4)), True
        line.append_text(piece if empty else Text(" ").append_text(piece))
        empty = False
    yield line


def end(address: str, port: int) -> str:
    """One end of a subflow, as in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def age(seconds: float) -> str:
    """A time in its two largest units: ``45 s``, ``2 h 05 min``, ``3 d 04 h``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def scaled(amount: float, unit: str) -> str:
    """Three or four digits and a decimal prefix: ``1.23 MB``, ``12.3 Mbit/s``, ``999 B``."""
    step = 0
    while amount >= 999.5 and step < len(_STEPS) - 1:
        amount /= 1000
        step += 1
    digits = 0 if step == 0 or amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{digits}f} {_STEPS[step]}{unit}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 subflow``, ``2 subflows``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
