"""The interface of the two sources of events."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from tributary.daemons.loop import Descriptor
from tributary.mptcp.events import Ended, Event
from tributary.mptcp.four_tuple import FourTuple

BATCH = 512
"""Packets of one interface, or messages of the kernel, per turn."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    KERNEL = "kernel"
    SNIFFER = "sniffer"


Known = Callable[[], Mapping[FourTuple, int]]
"""All subflows that the consumer knows, each with its session's token."""


class Source(Protocol):
    """Reports subflows that are established, change and end; a context manager."""

    @property
    def kind(self) -> SourceKind:
        """Its kind."""

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """Readable when there are events."""

    @property
    def has_pending(self) -> bool:
        """Whether there are more events although no descriptor is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def start(self) -> Sequence[Event]:
        """The subflows that exist at the start; call it once."""

    def events(self, known: Known, /) -> Sequence[Event]:
        """The events since the last call, in order of time."""

    def watch(self, interfaces: Mapping[str, int]) -> None:
        """Watch these interfaces, which have these numbers, and no others; raises CommandError, exit 71."""

    def drop(self, subflows: Iterable[FourTuple], reason: Ended) -> Sequence[Event]:
        """Forget subflows whose end the source cannot see; returns their end events, none if the source sees ends."""

    def capture(self) -> dict[str, dict[str, int]]:
        """Packets passed, dropped and unreadable, by interface."""

    def counts(self) -> Counter[str]:
        """Counters of events and of ignored packets."""
