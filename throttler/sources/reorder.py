"""Segments of several packet sockets in the order of their time."""

from collections.abc import Iterable, Sequence

from tributary.wire.segments import Segment

_SET = 30 * 10**9
"""Nanoseconds: a packet that seems to have waited for longer, or to be of the future, came before a clock was set."""

Captured = tuple[int, Segment | None]
"""When a packet was captured, by the monotonic clock, and its segment, None of one that nobody can read."""


def complete_until(now: int, sockets: Iterable[Sequence[Captured]], most: int) -> int:
    """Until when everything is there; ``now`` is before the first socket was read.

    More may wait in a socket from which as many packets as ``most`` came, all of them later than its last one.
    """
    return min((now, *(packets[-1][0] for packets in sockets if len(packets) == most)))


def monotonic(captured: int, wall: int, now: int) -> int:
    """When something was ``captured`` by the wall clock, as the monotonic one has it: it is ``wall`` and ``now``.

    All are in nanoseconds. The wall clock may be set at any time; what is timed here must not wait for it.
    """
    ago = wall - captured
    return now - ago if abs(ago) < _SET else now


class ReorderBuffer:
    """Holds back what may have been overtaken.

    A join on one interface must not be seen before the handshake on another that opened its session. When the sockets
    were emptied one after the other, everything captured before the first was emptied is there; of what came later
    only the part of the sockets that were emptied last.
    """

    def __init__(self) -> None:
        self._later: list[Segment] = []

    @property
    def has_pending(self) -> bool:
        """Whether segments wait for a later round."""
        return bool(self._later)

    def push(self, segments: Iterable[Segment], complete_until: int) -> list[Segment]:
        """The segments that may be seen now, oldest first; those after ``complete_until`` wait."""
        everything = sorted([*self._later, *segments], key=lambda segment: segment.time)
        self._later = [segment for segment in everything if segment.time > complete_until]
        return everything[: len(everything) - len(self._later)]
