"""Where events come from while the throttler runs: two sources, alike to the daemon."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from throttler.policy.model import Policy
from throttler.sources import routes
from throttler.sources.handshakes import Handshakes
from throttler.sources.lingering import Lingering
from throttler.sources.order import InOrder
from throttler.sources.sniffer import Sniffer
from tributary.daemons.loop import Descriptor
from tributary.mptcp import sockets
from tributary.mptcp.events import Event, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost, PathManager
from tributary.settings.failure import Exit, Failure
from tributary.wire.segments import Segment

_BATCH = 512
"""Packets of one interface, or messages of the kernel, in one round."""
_BETWEEN_LOOKS = 60.0
"""Seconds between two looks at the sockets, at least; 100,000 subflows take two seconds."""
_SHARE = 100
"""A look takes at most one part in so many of the time."""


class Which(StrEnum):
    """The kinds of sources."""

    KERNEL = "kernel"
    SNIFFER = "sniffer"


Known = Callable[[], Mapping[FourTuple, int]]
"""All subflows that the reader of the events knows, each with its session's token."""


class Source(Protocol):
    """Sees subflows come, change and go; a context manager."""

    @property
    def which(self) -> Which:
        """Its kind."""

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """What is readable when something happened."""

    @property
    def is_holding(self) -> bool:
        """Whether there is more to tell although no descriptor is readable."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def start(self) -> Sequence[Event]:
        """The subflows that were there before it; to be called once."""

    def events(self, known: Known, /) -> Sequence[Event]:
        """What happened since the last time, in the order of time."""

    def check(self, policy: Policy) -> None:
        """Raise Failure, exit 64, if it cannot see the paths of ``policy``."""

    def capture(self) -> dict[str, dict[str, int]]:
        """Packets passed, dropped and unreadable, by interface."""

    def counts(self) -> Counter[str]:
        """What came about and what was ignored."""


def choose() -> Which:
    """The source that fits this host: the kernel's own events where MPTCP sessions end here, else the sniffer."""
    return Which.KERNEL if PathManager.is_available() and sockets.ends_sessions() else Which.SNIFFER


def open_source(which: Which, policy: Policy) -> Source:
    """The source of that kind for the interfaces of ``policy``; raises Failure, exit 69 or 71."""
    return KernelEvents() if which is Which.KERNEL else Wire(policy.interfaces)


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
        return list(self._lingering.pass_on(events, time.time_ns()))

    def _told(self, known: Known) -> Sequence[Event]:
        try:
            found = list(self._manager.events(_BATCH))
        except EventsLost:
            self._counts["kernel events lost: looked at the sockets instead"] += 1
            return self._look(known)
        self._counts["kernel events"] += len(found)
        # The kernel tells nothing of some sessions that are aborted (seen on Linux 6.18).
        return found if time.monotonic() < self._next_look else [*found, *self._look(known)]

    def _look(self, known: Known) -> Sequence[Event]:
        started, now = time.monotonic(), time.time_ns()
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

    def check(self, policy: Policy) -> None:
        """It sees all interfaces."""

    def capture(self) -> dict[str, dict[str, int]]:
        """It captures nothing."""
        return {}

    def counts(self) -> Counter[str]:
        """Events, and how often they were lost."""
        return self._counts


class Wire:
    """The handshakes on the interfaces' wires, by Scapy."""

    which = Which.SNIFFER

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._interfaces = interfaces
        self._stack = ExitStack()
        self._handshakes = Handshakes()
        self._order = InOrder()
        with self._stack:
            self._sniffers = [self._stack.enter_context(Sniffer(interface)) for interface in interfaces]
            self._stack = self._stack.pop_all()

    @property
    def descriptors(self) -> Sequence[Descriptor]:
        """The packet sockets."""
        return self._sniffers

    @property
    def is_holding(self) -> bool:
        """Whether segments wait until it is sure that no earlier one is to come."""
        return self._order.is_holding

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def start(self) -> Sequence[Event]:
        """The subflows of this host's sockets, which are followed from now on, as far as they are on its interfaces."""
        now = time.time_ns()
        try:
            found = sockets.differences({}, sockets.snapshot(now), routes.interface_of, now)
        except OSError as error:
            raise Failure(Exit.SYSTEM, f"cannot look at this host's sockets: {error}") from error
        ours = [
            event for event in found if isinstance(event, SubflowEstablished) and event.interface in self._interfaces
        ]
        return [each for event in ours for each in (*self._handshakes.adopt(event), event)]

    def events(self, _known: Known, /) -> Sequence[Event]:
        """What the segments brought about."""
        found = [event for segment in self._segments() for event in self._handshakes.see(segment)]
        return [*found, *self._handshakes.expire(time.time_ns())]

    def _segments(self) -> list[Segment]:
        complete_until = time.time_ns()
        everything: list[Segment] = []
        for sniffer in self._sniffers:
            found = list(sniffer.segments(_BATCH))
            if len(found) == _BATCH:
                complete_until = min(complete_until, found[-1].time)
            everything += found
        return self._order.sort(everything, complete_until)

    def check(self, policy: Policy) -> None:
        """Raise Failure, exit 64, for a path over an interface that was not there when it started."""
        for name, path in policy.paths.items():
            if path.interface not in self._interfaces:
                raise Failure(
                    Exit.USAGE,
                    f"paths.{name}.interface = {path.interface!r}: accepted: an interface that is watched already"
                    f" ({', '.join(self._interfaces)}); restart the throttler to watch another one",
                )

    def capture(self) -> dict[str, dict[str, int]]:
        """What each packet socket counted."""
        return {sniffer.interface: sniffer.counts() for sniffer in self._sniffers}

    def counts(self) -> Counter[str]:
        """What the handshakes came to."""
        return Counter({str(name): count for name, count in self._handshakes.counts.items()})
