"""The wire as a source: the handshakes on the interfaces."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from throttler.policy.model import Policy
from throttler.sources import routes
from throttler.sources.handshakes import Handshakes
from throttler.sources.order import InOrder, complete_until
from throttler.sources.sniffer import Sniffer
from throttler.sources.source import BATCH, Known, Which
from tributary.daemons.loop import Descriptor
from tributary.mptcp import sockets
from tributary.mptcp.events import Event, SubflowEstablished
from tributary.settings.failure import Exit, Failure
from tributary.wire.segments import Segment


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
        now = time.time_ns()
        found = [list(sniffer.packets(BATCH)) for sniffer in self._sniffers]
        segments = (segment for packets in found for _, segment in packets if segment is not None)
        return self._order.sort(segments, complete_until(now, found, BATCH))

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
