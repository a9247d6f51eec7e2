"""The kernel as a source: its path manager's events, and its sockets."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from throttler.sources import routes
from throttler.sources.draining import DrainFilter
from throttler.sources.source import BATCH, Known, SourceKind
from tributary.daemons.loop import Descriptor
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost, PathManager

_BETWEEN_LOOKS = 60.0
"""Seconds between two looks at the sockets, at least; 100,000 subflows take two seconds."""
_AFTER_FAILURE = 1.0
"""Seconds to the next look after one that failed, as when too much changes meanwhile."""
_SHARE = 100
"""A look takes at most one part in so many of the time."""


class KernelEvents:
    """The events of the kernel's path manager; when some were lost, the sockets tell what is so now."""

    kind = SourceKind.KERNEL

    def __init__(self) -> None:
        self._manager = PathManager(routes.interface_of)
        self._thread = ThreadPoolExecutor(1, "sockets")
        self._looking: Future[_Seen | None] | None = None
        self._touched: set[FourTuple | int] = set()
        self._drain_filter = DrainFilter(sockets.has_unsent_data)
        self._next_look = 0.0
        self._counts: Counter[str] = Counter()

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """The netlink socket."""
        return (self._manager,)

    @property
    def has_pending(self) -> bool:
        """Whether a look has ended whose differences nobody has got yet."""
        return self._looking is not None and self._looking.done()

    def __enter__(self) -> Self:
        self._manager.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._manager.__exit__(kind, error, at)

    def start(self) -> Sequence[Event]:
        """The subflows of this network namespace's sockets."""
        return self._due(self._take(_look({})))

    def events(self, known: Known, /) -> Sequence[Event]:
        """What the kernel told, and now and then the difference to what is there, which it did not tell."""
        return self._due([*self._told(known), *self._seen(known)])

    def _due(self, events: Sequence[Event]) -> Sequence[Event]:
        return list(self._drain_filter.filter(events, time.monotonic_ns()))

    def _told(self, known: Known) -> Sequence[Event]:
        try:
            found = list(self._manager.events(BATCH))
        except EventsLost:
            self._counts["kernel events lost: looked at the sockets instead"] += 1
            self._begin(known)
            return []
        self._counts["kernel events"] += len(found)
        if self._looking is not None:
            self._touched.update(_about(event) for event in found)
        return found

    def _seen(self, known: Known) -> Sequence[Event]:
        # The kernel tells nothing of some sessions that are aborted (seen on Linux 6.18).
        if self._looking is None:
            if time.monotonic() >= self._next_look:
                self._begin(known)
            return []
        if not self._looking.done():
            return []
        seen, self._looking = self._looking.result(), None
        # What was told meanwhile is newer.
        return [event for event in self._take(seen) if not self._touched.intersection((event.token, _about(event)))]

    def _begin(self, known: Known) -> None:
        """Look beside the loop, in the place of a look that may have missed something."""
        if self._looking is not None:
            self._looking.cancel()
        self._touched = set()
        subflows = known()
        self._looking = self._thread.submit(lambda: _look(subflows))

    def _take(self, seen: "_Seen | None") -> Sequence[Event]:
        if seen is None:
            self._counts["looks at the sockets that failed"] += 1
            self._next_look = time.monotonic() + _AFTER_FAILURE
            return []
        self._counts["sessions fallen back to plain TCP, when the sockets were looked at"] = seen.fallbacks
        self._next_look = time.monotonic() + max(_BETWEEN_LOOKS, _SHARE * seen.took)
        return seen.differences

    def watch(self, interfaces: Mapping[str, int]) -> None:
        """It sees all interfaces."""

    def drop(self, _subflows: Iterable[FourTuple], _reason: Ended) -> Sequence[Event]:
        """The kernel tells all ends."""
        return ()

    def capture(self) -> dict[str, dict[str, int]]:
        """It captures nothing."""
        return {}

    def counts(self) -> Counter[str]:
        """Events, and how often they were lost."""
        return self._counts


@dataclass(frozen=True)
class _Seen:
    """A look at the sockets: its differences to what was known when it began, and the seconds it took."""

    differences: Sequence[Event]
    fallbacks: int
    took: float


def _look(known: Mapping[FourTuple, int]) -> _Seen | None:
    """None if the kernel could not tell. With 100,000 subflows this takes two seconds."""
    began, now = time.monotonic(), time.monotonic_ns()
    try:
        found = sockets.snapshot(now)
    except OSError:
        return None
    differences = sockets.differences(known, found, routes.interface_of, now)
    return _Seen(differences, found.fallbacks, time.monotonic() - began)


def _about(event: Event) -> FourTuple | int:
    """The subflow that an event is about, or else the session."""
    return event.subflow if isinstance(event, SubflowEstablished | SubflowClosed | SubflowPriority) else event.token
