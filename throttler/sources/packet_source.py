"""The sniffer source: the handshakes on the interfaces."""

import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from selectors import EVENT_READ, EpollSelector

from throttler.sources.limits import Count
from throttler.sources.sniffer import ReorderBuffer, Sniffer, complete_until
from throttler.sources.source import BATCH, Known, Source, SourceKind
from throttler.sources.tracker import Tracker
from tributary.kernel import routes
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.errors import CommandError, Exit
from tributary.wire.segments import Segment


class PacketSource(Source):
    """Reads handshakes from the interfaces by Scapy."""

    kind = SourceKind.SNIFFER

    def __init__(self) -> None:
        self._sniffers: dict[str, tuple[int, Sniffer]] = {}
        self._tracker = Tracker()
        self._reorder = ReorderBuffer()
        # One descriptor for the loop, for all interfaces (epoll(7)).
        self._selector = EpollSelector()

    def fileno(self) -> int:
        return self._selector.fileno()

    @property
    def has_pending(self) -> bool:
        """Whether segments wait because earlier ones may follow."""
        return self._reorder.has_pending

    def close(self) -> None:
        self.watch({})
        self._selector.close()

    def watch(self, interfaces: Mapping[str, int]) -> None:
        """Capture on these interfaces from now on; raises CommandError, exit 71. One that disappears meanwhile is
        skipped.
        """
        for name, number in interfaces.items():
            known = self._sniffers.get(name)
            if known is not None and known[0] == number:
                continue
            try:
                sniffer = Sniffer(name)
            except CommandError:
                if name in (each for _, each in socket.if_nameindex()):
                    raise
                continue
            self._selector.register(sniffer, EVENT_READ)
            self._close(name)
            self._sniffers[name] = number, sniffer
        for name in self._sniffers.keys() - interfaces.keys():
            self._close(name)

    def _close(self, name: str) -> None:
        if name in self._sniffers:
            _, sniffer = self._sniffers.pop(name)
            self._selector.unregister(sniffer)
            sniffer.close()

    def start(self) -> Sequence[Event]:
        """The subflows of this host's sockets on the watched interfaces; they are followed from now on."""
        now = time.monotonic_ns()
        try:
            found = sockets.differences({}, sockets.snapshot(now), routes.interface_of, now)
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"cannot look at this host's sockets: {error}") from error
        own = [event for event in found if isinstance(event, SubflowEstablished) and event.interface in self._sniffers]
        return [each for event in own for each in (*self._tracker.import_existing(event), event)]

    def events(self, _known: Known, /) -> Sequence[Event]:
        found = [event for segment in self._segments() for event in self._tracker.handle(segment)]
        return [*found, *self._tracker.expire(time.monotonic_ns())]

    def _segments(self) -> list[Segment]:
        wall, now = time.time_ns(), time.monotonic_ns()
        found = [list(sniffer.packets(BATCH, wall, now)) for _, sniffer in self._sniffers.values()]
        segments = (segment for packets in found for _, segment in packets if segment is not None)
        return self._reorder.push(segments, complete_until(now, found, BATCH))

    def drop(self, subflows: Iterable[FourTuple], reason: Ended) -> Sequence[Event]:
        now = time.monotonic_ns()
        return [event for each in subflows for event in self._tracker.drop(each, now, reason)]

    def capture(self) -> dict[str, dict[str, int]]:
        return {name: sniffer.counts() for name, (_, sniffer) in self._sniffers.items()}

    def counts(self) -> Counter[str]:
        """All of them from the start: what appears with its first event has no increase then, for Prometheus."""
        return Counter({str(name): self._tracker.counts[name] for name in Count})
