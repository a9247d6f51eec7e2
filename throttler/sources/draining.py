"""Delays the end of sessions whose closed sockets still send data.

The kernel reports CLOSED when the application closes (mptcp_close() in net/mptcp/protocol.c). The send
buffer, megabytes with a large tcp_wmem, is sent after that over the same subflows, and no event reports their end. So a
closed session remains as long as the kernel has one of its subflows in a sending state, which a scan for established
ones does not find. Addresses and ports that another session uses meanwhile are no longer its own.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple

SECOND = 10**9
PAUSE = SECOND // 4
"""Nanoseconds between two checks of a closed session."""
_CHECKS = 64
"""Subflows that are checked per turn: each costs a system call, while events wait."""


class DrainFilter:
    """Passes events on, but keeps SessionClosed back while ``has_unsent_data`` is true of one of the session's
    subflows.
    """

    def __init__(self, has_unsent_data: Callable[[FourTuple], bool]) -> None:
        self._has_unsent_data = has_unsent_data
        self._subflows: defaultdict[int, set[FourTuple]] = defaultdict(set)
        self._tokens: dict[FourTuple, int] = {}
        self._closed: deque[tuple[int, SessionClosed]] = deque()
        self._draining: set[int] = set()
        """The tokens of those closed."""

    def filter(self, events: Iterable[Event], now: int) -> Iterator[Event]:
        """``events`` but for SessionClosed, and the ends of what is sent; ``now`` is in their clock's nanoseconds."""
        for event in events:
            match event:
                case SubflowEstablished():
                    self._forget(self._tokens.get(event.subflow), event.subflow)
                    self._tokens[event.subflow] = event.token
                    self._subflows[event.token].add(event.subflow)
                case SubflowClosed(reason=Ended.GONE) if self._is_draining(event):
                    continue
                case SubflowClosed():
                    self._forget(event.token, event.subflow)
                case SessionClosed():
                    self._draining.add(event.token)
                    self._closed.append((now + PAUSE, event))
                    continue
            yield event
        yield from self._ended(now)

    def has_due(self, now: int) -> bool:
        """Whether closed sessions are due to be checked, as when too many were for one turn."""
        return bool(self._closed) and self._closed[0][0] <= now

    def _is_draining(self, event: SubflowClosed) -> bool:
        return event.token in self._draining and self._tokens.get(event.subflow) == event.token

    def _forget(self, token: int | None, subflow: FourTuple) -> None:
        if token is None or self._tokens.get(subflow) != token:
            return
        del self._tokens[subflow]
        self._subflows[token].discard(subflow)
        if not self._subflows[token]:
            del self._subflows[token]

    def _ended(self, now: int) -> Iterator[Event]:
        checks = 0
        while self._closed and self._closed[0][0] <= now and checks < _CHECKS:
            _, event = self._closed.popleft()
            subflows = self._subflows.pop(event.token, set())
            checks += len(subflows)
            sending = {subflow for subflow in subflows if self._has_unsent_data(subflow)}
            for gone in subflows - sending:
                del self._tokens[gone]
            if sending:
                self._subflows[event.token] = sending
                self._closed.append((now + PAUSE, event))
                yield from (SubflowClosed(now, event.token, gone, event.reason) for gone in subflows - sending)
            else:
                self._draining.discard(event.token)
                yield event
