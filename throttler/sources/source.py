"""Where events come from while the throttler runs: two sources, alike to the daemon."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from tributary.daemons.loop import Descriptor
from tributary.mptcp.events import Ended, Event
from tributary.mptcp.four_tuple import FourTuple

BATCH = 512
"""Packets of one interface, or messages of the kernel, in one round."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    KERNEL = "kernel"
    SNIFFER = "sniffer"


Known = Callable[[], Mapping[FourTuple, int]]
"""All subflows that the reader of the events knows, each with its session's token."""


class Source(Protocol):
    """Sees subflows come, change and go; a context manager."""

    @property
    def kind(self) -> SourceKind:
        """Its kind."""

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """What is readable when something happened."""

    @property
    def has_pending(self) -> bool:
        """Whether there is more to tell although no descriptor is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def start(self) -> Sequence[Event]:
        """The subflows that were there before it; to be called once."""

    def events(self, known: Known, /) -> Sequence[Event]:
        """What happened since the last time, in the order of time."""

    def watch(self, interfaces: Mapping[str, int]) -> None:
        """Watch these interfaces, which have these numbers, and no others; raises CommandError, exit 71."""

    def drop(self, subflows: Iterable[FourTuple], reason: Ended) -> Sequence[Event]:
        """Forget subflows whose end nobody tells; returns the events of their ends, none if it is told of ends."""

    def capture(self) -> dict[str, dict[str, int]]:
        """Packets passed, dropped and unreadable, by interface."""

    def counts(self) -> Counter[str]:
        """What came about and what was ignored."""
