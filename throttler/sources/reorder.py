"""Orders the segments of several packet sockets by time."""

from collections.abc import Iterable, Sequence

from tributary.wire.segments import Segment

_SET = 30 * 10**9
"""Nanoseconds: a packet that seems to be older, or from the future, was stamped before the clock was set."""

Captured = tuple[int, Segment | None]
"""A packet's capture time, by the monotonic clock, and its segment, None if it is unreadable."""


def complete_until(now: int, sockets: Iterable[Sequence[Captured]], most: int) -> int:
    """The time until which all packets have been read; ``now`` is from before the first read.

    A socket that returned ``most`` packets may hold more, all later than its last one.
    """
    return min((now, *(packets[-1][0] for packets in sockets if len(packets) == most)))


def monotonic(captured: int, wall: int, now: int) -> int:
    """Converts ``captured`` from the wall clock to the monotonic one; they show ``wall`` and ``now``.

    All are in nanoseconds. The wall clock may be set at any time, which must not delay events.
    """
    ago = wall - captured
    return now - ago if abs(ago) < _SET else now


class ReorderBuffer:
    """Delays segments that may have been overtaken.

    A join on one interface must not be handled before the handshake on another that opened its session. The sockets are
    read one after the other: packets captured before the first read are complete; later ones are only those of the
    sockets that were read last.
    """

    def __init__(self) -> None:
        self._later: list[Segment] = []

    @property
    def has_pending(self) -> bool:
        """Whether segments wait for a later turn."""
        return bool(self._later)

    def push(self, segments: Iterable[Segment], complete_until: int) -> list[Segment]:
        """Returns the segments that are in order, oldest first; those after ``complete_until`` wait."""
        everything = sorted([*self._later, *segments], key=lambda segment: segment.time)
        self._later = [segment for segment in everything if segment.time > complete_until]
        return everything[: len(everything) - len(self._later)]
