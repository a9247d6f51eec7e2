"""The kernel source: its path manager's events, and its sockets."""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from throttler.sources.draining import DrainFilter
from throttler.sources.source import BATCH, Known, Source, SourceKind
from tributary.kernel import routes
from tributary.mptcp import sockets
from tributary.mptcp.events import Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost, PathManager

_BETWEEN_SCANS = 60.0
"""Seconds between two scans of the sockets, at least; 100,000 subflows take two seconds."""
_AFTER_FAILURE = 1.0
"""Seconds to the next scan after a failed one, as when too much changes meanwhile."""
_SHARE = 100
"""A scan takes at most one part in so many of the time."""


class KernelEvents(Source):
    """The events of the kernel's path manager; after lost events a scan of the sockets gives the current state."""

    kind = SourceKind.KERNEL

    def __init__(self) -> None:
        self._manager = PathManager(routes.interface_of)
        self._thread = ThreadPoolExecutor(1, "sockets")
        self._scan: Future[_Scan | None] | None = None
        self._touched: set[FourTuple | int] = set()
        self._drain_filter = DrainFilter(sockets.has_unsent_data)
        self._next_scan = 0.0
        # Sessions that this host has begun, as a converter does to the next one; and those since the scan began.
        self._own: set[int] = set()
        self._begun: set[int] = set()
        self._counts: Counter[str] = Counter()

    def fileno(self) -> int:
        return self._manager.fileno()

    @property
    def has_pending(self) -> bool:
        """Whether a finished scan waits to be collected, or closed sessions are due to be checked."""
        return (self._scan is not None and self._scan.done()) or self._drain_filter.has_due(time.monotonic_ns())

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._manager.close()

    def start(self) -> Sequence[Event]:
        """The subflows of this network namespace's sockets."""
        return self._due(self._take(_scan_sockets({}, frozenset())))

    def events(self, known: Known, /) -> Sequence[Event]:
        """The kernel's events, and the differences that a scan of the sockets found."""
        return self._due([*self._kernel_events(known), *self._scanned(known)])

    def _due(self, events: Sequence[Event]) -> Sequence[Event]:
        return list(self._drain_filter.filter(events, time.monotonic_ns()))

    def _kernel_events(self, known: Known) -> Sequence[Event]:
        try:
            found = [event for event in self._manager.events(BATCH) if not self._is_own(event)]
        except EventsLost:
            self._counts["kernel events lost: scanned the sockets instead"] += 1
            self._begin(known)
            return []
        self._counts["kernel events"] += len(found)
        if self._scan is not None:
            self._touched.update(_about(event) for event in found)
        return found

    def _is_own(self, event: Event) -> bool:
        """Whether it is about a session that this host has begun: its other end is no client's."""
        if isinstance(event, SubflowEstablished) and event.initial:
            (self._own.add if event.is_own else self._own.discard)(event.token)
            self._begun.add(event.token)
        is_own = event.token in self._own
        if isinstance(event, SessionClosed):
            self._own.discard(event.token)
        return is_own

    def _scanned(self, known: Known) -> Sequence[Event]:
        # The kernel reports nothing for some aborted sessions (seen on Linux 6.18).
        if self._scan is None:
            if time.monotonic() >= self._next_scan:
                self._begin(known)
            return []
        if not self._scan.done():
            return []
        seen, self._scan = self._scan.result(), None
        # Events that came meanwhile are newer.
        return [event for event in self._take(seen) if not self._touched.intersection((event.token, _about(event)))]

    def _begin(self, known: Known) -> None:
        """Scan beside the loop, in place of a scan that may have missed something."""
        if self._scan is not None:
            self._scan.cancel()
        self._touched, self._begun = set(), set()
        subflows, own = known(), frozenset(self._own)
        self._scan = self._thread.submit(lambda: _scan_sockets(subflows, own))

    def _take(self, seen: "_Scan | None") -> Sequence[Event]:
        if seen is None:
            self._counts["failed scans of the sockets"] += 1
            self._next_scan = time.monotonic() + _AFTER_FAILURE
            return []
        self._counts["sessions fallen back to plain TCP, at the last scan of the sockets"] = seen.fallbacks
        self._own = (self._own & self._begun) | (seen.own - self._begun)
        self._next_scan = time.monotonic() + max(_BETWEEN_SCANS, _SHARE * seen.took)
        return seen.differences

    def counts(self) -> Counter[str]:
        return self._counts


@dataclass(frozen=True)
class _Scan:
    """A scan of the sockets: the differences to what was known at its start, the sessions that this host has begun, and
    its duration in seconds.
    """

    differences: Sequence[Event]
    own: frozenset[int]
    fallbacks: int
    took: float


def _scan_sockets(known: sockets.Known, own: frozenset[int]) -> _Scan | None:
    """Scan the sockets; None if that failed. 100,000 subflows take two seconds."""
    began, now = time.monotonic(), time.monotonic_ns()
    try:
        found = sockets.snapshot(now)
    except OSError:
        return None
    differences = sockets.differences(known, found, routes.interface_of, now, own)
    return _Scan(differences, found.own(own), found.fallbacks, time.monotonic() - began)


def _about(event: Event) -> FourTuple | int:
    """The subflow that an event is about, or else the session."""
    return event.subflow if isinstance(event, SubflowEstablished | SubflowClosed | SubflowPriority) else event.token
