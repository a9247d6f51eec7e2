"""Formats a daemon's answers for people: times, numbers."""

_STEPS = ("", "k", "M", "G", "T", "P")


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
