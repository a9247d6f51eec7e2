"""Segments of several packet sockets in the order of their time."""

from collections.abc import Iterable, Sequence

from tributary.wire.segments import Segment

_SET_BACK = 10**9
"""Nanoseconds by which a clock that was set back must differ, so that nothing else is taken for it."""

Captured = tuple[int, Segment | None]
"""When a packet was captured, in nanoseconds since 1970, and its segment, None of one that nobody can read."""


def complete_until(now: int, sockets: Iterable[Sequence[Captured]], most: int) -> int:
    """Until when everything is there; ``now`` is before the first socket was read.

    More may wait in a socket from which as many packets as ``most`` came, all of them later than its last one.
    """
    return min((now, *(packets[-1][0] for packets in sockets if len(packets) == most)))


class InOrder:
    """Holds back what may have been overtaken.

    A join on one interface must not be seen before the handshake on another that opened its session. When the sockets
    were emptied one after the other, everything captured before the first was emptied is there; of what came later
    only the part of the sockets that were emptied last.
    """

    def __init__(self) -> None:
        self._later: list[Segment] = []
        self._complete_until = 0

    @property
    def is_holding(self) -> bool:
        """Whether segments wait for a later round."""
        return bool(self._later)

    def sort(self, segments: Iterable[Segment], complete_until: int) -> list[Segment]:
        """The segments that may be seen now, oldest first; those after ``complete_until`` wait.

        When the clock was set back all are given out, or they would wait until it is as late again.
        """
        everything = sorted([*self._later, *segments], key=lambda segment: segment.time)
        was_set_back = complete_until < self._complete_until - _SET_BACK
        self._complete_until = complete_until
        self._later = [] if was_set_back else [segment for segment in everything if segment.time > complete_until]
        return everything[: len(everything) - len(self._later)]
