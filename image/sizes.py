"""Sizes as people read them."""

_STEPS = ("B", "kB", "MB", "GB", "TB")


def sized(count: int) -> str:
    """Bytes with three digits and a decimal unit, as printed on cards: ``31.9 GB``."""
    step, number = 0, float(count)
    while number >= 999.5 and step < len(_STEPS) - 1:
        step, number = step + 1, number / 1000
    digits = 0 if step == 0 or number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f} {_STEPS[step]}"
