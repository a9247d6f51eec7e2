"""Rates, from the differences between two looks at counters. Pure."""

from dataclasses import replace
from typing import Any

from command import mapping
from command.show import D, Listed
from tributary.api.documents import Document, Session

_RATES = {"sent_rate": ("sent", 8), "received_rate": ("received", 8), "drop_rate": ("dropped", 1)}
"""Each rate, the counter that it follows from, and its factor: bits for bytes."""


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
        sums = {
            rate: mapping.known_sum([getattr(each, rate) for each in subflows])
            for rate in ("sent_rate", "received_rate")
        }
        return new.model_copy(update={"subflows": subflows, **sums})
    return new.model_copy(update=_growth(new, old, seconds))


def _growth(new: Document, old: Document, seconds: float) -> dict[str, Any]:
    grown = {}
    for rate, (counter, factor) in _RATES.items():
        before, after = getattr(old, counter, None), getattr(new, counter, None)
        if rate in type(new).model_fields and before is not None and after is not None and after >= before:
            grown[rate] = (after - before) * factor / seconds
    return grown
