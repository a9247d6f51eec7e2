"""The interface of the two sources of events."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from tributary.closing import Closing
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event
from tributary.mptcp.four_tuple import FourTuple

BATCH = 512
"""Packets of one interface, or messages of the kernel, per turn."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    KERNEL = "kernel"
    SNIFFER = "sniffer"


Known = Callable[[], sockets.Known]
"""All subflows that the consumer knows."""


class Source(Closing):
    """Reports subflows that are established, change and end; a context manager."""

    kind: SourceKind

    def fileno(self) -> int:
        """A descriptor that is readable when there are events."""
        raise NotImplementedError

    @property
    def has_pending(self) -> bool:
        """Whether there are more events although the descriptor is not readable."""
        raise NotImplementedError

    def start(self) -> Sequence[Event]:
        """The subflows that exist at the start; call it once."""
        raise NotImplementedError

    def events(self, known: Known, /) -> Sequence[Event]:
        """The events since the last call, in order of time."""
        raise NotImplementedError

    def counts(self) -> Counter[str]:
        """Counters of events and of ignored packets."""
        raise NotImplementedError

    def watch(self, interfaces: Mapping[str, int]) -> None:
        """Watch these interfaces, which have these numbers, and no others; raises CommandError, exit 71."""

    def drop(self, _subflows: Iterable[FourTuple], _reason: Ended) -> Sequence[Event]:
        """Forget subflows whose end the source cannot see; returns their end events, none if the source sees ends."""
        return ()

    def capture(self) -> dict[str, dict[str, int]]:
        """Packets passed, dropped and unreadable, by interface; none if it captures nothing."""
        return {}
