"""The tables of what is established: what subflows say and how they end; every entry and every exit."""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from hmac import compare_digest

from throttler.sources.fair_lru import FairLru
from throttler.sources.limits import Count, Limits
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire import options as mptcp
from tributary.wire.keys import Keys, token
from tributary.wire.segments import Segment, client_of


@dataclass(slots=True)
class TrackedSession:
    """``client`` owns all its entries. ``keys`` is None if it is older than the throttler."""

    client: Hashable
    keys: Keys | None
    subflows: set[FourTuple] = field(default_factory=set)


@dataclass(slots=True)
class TrackedSubflow:
    """An established subflow; ``since`` is in nanoseconds of the monotonic clock."""

    token: int
    since: int
    fin_sent: bool = False
    fin_received: bool = False


class Established:
    """Sessions and subflows; iterators must be iterated to the end."""

    def __init__(self, limits: Limits, counts: Counter[Count]) -> None:
        self._limits, self._counts = limits, counts
        self.sessions: FairLru[int, TrackedSession] = FairLru(limits.sessions, limits.sessions_of_client)
        self._idle: FairLru[int, None] = FairLru(limits.sessions)
        self._subflows: FairLru[FourTuple, TrackedSubflow] = FairLru(limits.subflows, limits.subflows_of_client)
        self._closing: FairLru[FourTuple, None] = FairLru(limits.subflows)

    def drop(self, subflow: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        """End a subflow for a reason that packets do not show."""
        if subflow in self._subflows and reason is Ended.TIMEOUT:
            self._counts[Count.SILENT] += 1
        yield from self.close_subflow(subflow, now, reason)

    def expire(self, now: int) -> Iterator[Event]:
        """End at ``now`` what was idle or half closed for too long."""
        for session in self._idle.expire(now - self._limits.idle_time):
            self.sessions.pop(session)
        for subflow in self._closing.expire(now - self._limits.closing_time):
            self._counts[Count.TIMED_OUT] += 1
            yield from self.close_subflow(subflow, now, Ended.TIMEOUT)

    def signals(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        """What a segment's options say of an established subflow."""
        for option in options:
            subflow = self._subflows.get(name)
            if subflow is None:
                return
            if isinstance(option, mptcp.MpFastclose):
                yield from self._fastclose(subflow.token, segment.time, segment.outgoing, option.receiver_key)
            elif isinstance(option, mptcp.MpPrio) and not segment.outgoing:
                yield SubflowPriority(segment.time, subflow.token, name, option.backup)

    def add_session(self, event: SubflowEstablished, keys: Keys | None) -> Iterator[Event]:
        """Add a session with its first subflow; a known session without keys gets them."""
        known = self.sessions.get(event.token)
        if known is None or known.keys is not None:
            yield from self._new_session(event, keys)
        else:
            known.keys = keys
        yield from self.add_subflow(event)

    def _new_session(self, event: SubflowEstablished, keys: Keys | None) -> Iterator[Event]:
        yield from self._close_session(event.token, event.time, Ended.REPLACED)
        session = TrackedSession(client_of(event.subflow.remote), keys)
        evicted = self.sessions.put(event.token, session, event.time, session.client)
        if evicted is not None:
            self._counts[Count.SESSIONS_EVICTED] += 1
            self._clear(*evicted)
            yield SessionClosed(event.time, evicted[0], Ended.EVICTED)
        self._idle.put(event.token, None, event.time)

    def add_subflow(self, event: SubflowEstablished) -> Iterator[Event]:
        session = self.sessions.get(event.token)
        if session is None or self._is_known(event):
            return
        # A port used again: the end of the old subflow was missed.
        yield from self.close_subflow(event.subflow, event.time, Ended.REPLACED)
        new = TrackedSubflow(event.token, event.time)
        evicted = self._subflows.put(event.subflow, new, event.time, session.client)
        session.subflows.add(event.subflow)
        self._idle.pop(event.token)
        if evicted is not None:
            self._counts[Count.SUBFLOWS_EVICTED] += 1
            yield self._remove(*evicted, event.time, Ended.EVICTED)
        yield event

    def _is_known(self, event: SubflowEstablished) -> bool:
        """Whether the subflow was imported while the segments of its handshake were still queued."""
        known = self._subflows.get(event.subflow)
        return known is not None and known.token == event.token and known.since >= event.time

    def on_fin(self, name: FourTuple, now: int, outgoing: bool) -> Iterator[Event]:
        """One side has closed a subflow; it ends when both have."""
        subflow = self._subflows.get(name)
        if subflow is None:
            return
        subflow.fin_sent |= outgoing
        subflow.fin_received |= not outgoing
        if subflow.fin_sent and subflow.fin_received:
            yield from self.close_subflow(name, now, Ended.FIN)
        elif name not in self._closing:
            self._closing.put(name, None, now)

    def _fastclose(self, name: int, now: int, outgoing: bool, key: bytes) -> Iterator[Event]:
        """One side closes a session with that key."""
        session = self.sessions.get(name)
        if session is None:
            return
        if _may_close(session.keys, name, outgoing, key):
            yield from self._close_session(name, now, Ended.FASTCLOSE)
        else:
            self._counts[Count.WRONG_KEY] += 1

    def close_subflow(self, name: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        subflow = self._subflows.pop(name)
        if subflow is not None:
            yield self._remove(name, subflow, now, reason)

    def _remove(self, name: FourTuple, subflow: TrackedSubflow, now: int, reason: Ended) -> SubflowClosed:
        self._closing.pop(name)
        session = self.sessions.get(subflow.token)
        if session is not None:
            session.subflows.discard(name)
            if not session.subflows:
                self._idle.put(subflow.token, None, now)
        return SubflowClosed(now, subflow.token, name, reason)

    def _close_session(self, name: int, now: int, reason: Ended) -> Iterator[Event]:
        """End the session with all its subflows, if it exists."""
        session = self.sessions.pop(name)
        if session is not None:
            self._clear(name, session)
            yield SessionClosed(now, name, reason)

    def _clear(self, name: int, session: TrackedSession) -> None:
        self._idle.pop(name)
        for subflow in session.subflows:
            self._subflows.pop(subflow)
            self._closing.pop(subflow)


def _may_close(keys: Keys | None, name: int, outgoing: bool, given: bytes) -> bool:
    """Whether MP_FASTCLOSE carries the key of the side that it is sent to (RFC 8684 section 3.5).

    Without the session's keys, the token verifies the listener's key (section 3.2); outgoing ones are the listener's
    own.
    """
    if keys is None:
        return outgoing or token(given) == name
    return compare_digest(keys.client if outgoing else keys.listener, given)
