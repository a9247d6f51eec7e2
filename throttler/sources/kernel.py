"""The kernel as a source: its path manager's events, and its sockets."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from throttler.sources import routes
from throttler.sources.lingering import Lingering
from throttler.sources.source import BATCH, Known, Which
from tributary.daemons.loop import Descriptor
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost, PathManager

_BETWEEN_LOOKS = 60.0
"""Seconds between two looks at the sockets, at least; 100,000 subflows take two seconds."""
_SHARE = 100
"""A look takes at most one part in so many of the time."""


class KernelEvents:
    """The events of the kernel's path manager; when some were lost, the sockets tell what is so now."""

    which = Which.KERNEL
    is_holding = False

    def __init__(self) -> None:
        self._manager = PathManager(routes.interface_of)
        self._lingering = Lingering(sockets.sends)
        self._next_look = 0.0
        self._counts: Counter[str] = Counter()

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """The netlink socket."""
        return (self._manager,)

    def __enter__(self) -> Self:
        self._manager.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._manager.__exit__(kind, error, at)

    def start(self) -> Sequence[Event]:
        """The subflows of this network namespace's sockets."""
        return self._due(self._look(dict))

    def events(self, known: Known, /) -> Sequence[Event]:
        """What the kernel told, or, when it had to give up telling, the difference to what is there now."""
        return self._due(self._told(known))

    def _due(self, events: Sequence[Event]) -> Sequence[Event]:
        return list(self._lingering.pass_on(events, time.monotonic_ns()))

    def _told(self, known: Known) -> Sequence[Event]:
        try:
            found = list(self._manager.events(BATCH))
        except EventsLost:
            self._counts["kernel events lost: looked at the sockets instead"] += 1
            return self._look(known)
        self._counts["kernel events"] += len(found)
        # The kernel tells nothing of some sessions that are aborted (seen on Linux 6.18).
        return found if time.monotonic() < self._next_look else [*found, *self._look(known)]

    def _look(self, known: Known) -> Sequence[Event]:
        started, now = time.monotonic(), time.monotonic_ns()
        try:
            found = sockets.snapshot(now)
        except OSError:
            self._counts["looks at the sockets that failed"] += 1
            return []
        differences = sockets.differences(known(), found, routes.interface_of, now)
        self._counts["sessions fallen back to plain TCP, when the sockets were looked at"] = found.fallbacks
        ended = time.monotonic()
        self._next_look = ended + max(_BETWEEN_LOOKS, _SHARE * (ended - started))
        return differences

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
