"""Segments of several packet sockets in the order of their time."""

from collections.abc import Iterable

from throttler.segments import Segment


class InOrder:
    """Holds back what may have been overtaken.

    A join on one interface must not be seen before the handshake on another that opened its session. When the sockets
    were emptied one after the other, everything captured before the first was emptied is there; of what came later
    only the part of the sockets that were emptied last.
    """

    def __init__(self) -> None:
        self._later: list[Segment] = []

    @property
    def is_holding(self) -> bool:
        """Whether segments wait for the next round."""
        return bool(self._later)

    def sort(self, segments: Iterable[Segment], complete_until: int) -> list[Segment]:
        """The segments that may be seen now, oldest first; those after ``complete_until`` wait for one round.

        For one round only, so that a clock that is set back does not stop them.
        """
        segments = list(segments)
        ready = self._later + [segment for segment in segments if segment.time <= complete_until]
        self._later = [segment for segment in segments if segment.time > complete_until]
        return sorted(ready, key=lambda segment: segment.time)
