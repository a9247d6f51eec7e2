"""Delays the reconciliation after a change, once for a burst. Pure: the caller passes the clock in seconds."""

QUIET = 0.05
"""Seconds without a change. A link that comes up says so in three or four messages within some milliseconds."""
LONGEST = 0.25
"""Seconds after the first change of a burst that does not end."""


class Debounce:
    """``due`` is when to reconcile, None without changes."""

    def __init__(self) -> None:
        self._first: float | None = None
        self.due: float | None = None

    def change(self, now: float) -> None:
        if self._first is None:
            self._first = now
        self.due = min(now + QUIET, self._first + LONGEST)

    def reset(self) -> None:
        self._first = self.due = None
