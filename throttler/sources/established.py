"""The tables of established sessions and subflows: every entry and every exit."""

import hmac
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from throttler.sources.fair_lru import FairLru
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.keys import token
from tributary.wire.segments import client_of

SECOND = 10**9


class Count(StrEnum):
    """Counters of events and of ignored packets."""

    SESSIONS = "sessions established"
    JOINS = "joins established"
    UNPROVEN = "joins not proven: session older than the throttler"
    ANNOUNCED = "addresses announced"
    REMOVED = "addresses removed"
    TIMED_OUT = "subflows closed by one side only, and timed out"
    SILENT = "throttled subflows silent for too long"
    MALFORMED = "malformed TCP options"
    FALLBACK = "fallbacks to plain TCP"
    UNKNOWN_TOKEN = "joins with an unknown token"
    UNKNOWN_ADDRESS = "removals of an unknown address"
    WRONG_KEY = "wrong keys"
    WRONG_HMAC = "wrong HMACs"
    UNANSWERED = "third ACKs without a SYN/ACK"
    WRONG_DIRECTION = "SYNs in the wrong direction"
    HALF_OPEN_EVICTED = "half-open handshakes evicted"
    HALF_OPEN_EXPIRED = "half-open handshakes expired"
    SESSIONS_EVICTED = "sessions evicted"
    SUBFLOWS_EVICTED = "subflows evicted"
    ADDRESSES_REFUSED = "addresses beyond a session's share"


@dataclass(frozen=True)
class Limits:
    """Entries per table, the share of them that one client may have, and nanoseconds that an entry stays."""

    half_open: int = 16_384
    half_open_of_client: int = 1024
    sessions: int = 65_536
    sessions_of_client: int = 8192
    subflows: int = 131_072
    subflows_of_client: int = 16_384
    # Those announced, and those joined from; Linux has 8 endpoints.
    addresses_of_session: int = 16
    # A SYN/ACK is sent again after 1, 3, 7, 15 and 31 seconds; then Linux gives up.
    half_open_time: int = 60 * SECOND
    # A session outlives its last subflow: break before make (RFC 8684 section 3.6).
    idle_time: int = 60 * SECOND
    # One side has closed a subflow and the other never does, or its FIN was missed.
    closing_time: int = 300 * SECOND


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of MP_CAPABLE (RFC 8684 section 3.1)."""

    listener: bytes
    client: bytes


@dataclass(slots=True)
class TrackedSession:
    """``client`` owns all its entries. ``keys`` is None if it is older than the throttler.

    ``addresses`` maps the client's address ids to address and port, None if not announced.
    """

    client: Hashable
    keys: Keys | None
    subflows: set[FourTuple] = field(default_factory=set)
    addresses: dict[int, tuple[str, int | None] | None] = field(default_factory=dict)


@dataclass(slots=True)
class TrackedSubflow:
    """An established subflow; ``since`` is in nanoseconds of the monotonic clock."""

    token: int
    since: int
    fin_sent: bool = False
    fin_received: bool = False


class Established:
    """The tables. Iterators must be iterated to the end."""

    def __init__(self, limits: Limits, counts: Counter[Count]) -> None:
        self._limits = limits
        self._counts = counts
        self._sessions: FairLru[int, TrackedSession] = FairLru(limits.sessions, limits.sessions_of_client)
        self._idle: FairLru[int, None] = FairLru(limits.sessions)
        self._subflows: FairLru[FourTuple, TrackedSubflow] = FairLru(limits.subflows, limits.subflows_of_client)
        self._closing: FairLru[FourTuple, None] = FairLru(limits.subflows)

    def session(self, name: int) -> TrackedSession | None:
        """The session of that token."""
        return self._sessions.get(name)

    def subflow(self, name: FourTuple) -> TrackedSubflow | None:
        """The subflow of that 4-tuple."""
        return self._subflows.get(name)

    # In

    def add_session(self, event: SubflowEstablished, keys: Keys | None) -> Iterator[Event]:
        """Add a session with its first subflow; a known session without keys gets them."""
        known = self._sessions.get(event.token)
        if known is None or known.keys is not None:
            yield from self._new_session(event, keys)
        else:
            known.keys = keys
        yield from self.add_subflow(event)

    def _new_session(self, event: SubflowEstablished, keys: Keys | None) -> Iterator[Event]:
        yield from self.close_session(event.token, event.time, Ended.REPLACED)
        session = TrackedSession(client_of(event.subflow.remote), keys)
        evicted = self._sessions.put(event.token, session, event.time, session.client)
        if evicted is not None:
            self._counts[Count.SESSIONS_EVICTED] += 1
            self._clear(*evicted)
            yield SessionClosed(event.time, evicted[0], Ended.EVICTED)
        self._idle.put(event.token, None, event.time)

    def add_subflow(self, event: SubflowEstablished) -> Iterator[Event]:
        """Add a subflow to an existing session."""
        session = self._sessions.get(event.token)
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
        if len(session.addresses) < self._limits.addresses_of_session:
            session.addresses.setdefault(event.address_id, None)
        yield event

    def _is_known(self, event: SubflowEstablished) -> bool:
        """Whether the subflow was imported while the segments of its handshake were still queued."""
        known = self._subflows.get(event.subflow)
        return known is not None and known.token == event.token and known.since >= event.time

    # Out

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

    def fastclose(self, name: int, now: int, outgoing: bool, key: bytes) -> Iterator[Event]:
        """One side closes a session with that key."""
        session = self._sessions.get(name)
        if session is None:
            return
        if _may_close(session.keys, name, outgoing, key):
            yield from self.close_session(name, now, Ended.FASTCLOSE)
        else:
            self._counts[Count.WRONG_KEY] += 1

    def close_subflow(self, name: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        """End the subflow, if it exists."""
        subflow = self._subflows.pop(name)
        if subflow is not None:
            yield self._remove(name, subflow, now, reason)

    def _remove(self, name: FourTuple, subflow: TrackedSubflow, now: int, reason: Ended) -> SubflowClosed:
        self._closing.pop(name)
        session = self._sessions.get(subflow.token)
        if session is not None:
            session.subflows.discard(name)
            if not session.subflows:
                self._idle.put(subflow.token, None, now)
        return SubflowClosed(now, subflow.token, name, reason)

    def close_session(self, name: int, now: int, reason: Ended) -> Iterator[Event]:
        """End the session with all its subflows, if it exists."""
        session = self._sessions.pop(name)
        if session is not None:
            self._clear(name, session)
            yield SessionClosed(now, name, reason)

    def _clear(self, name: int, session: TrackedSession) -> None:
        self._idle.pop(name)
        for subflow in session.subflows:
            self._subflows.pop(subflow)
            self._closing.pop(subflow)

    def expire(self, now: int) -> Iterator[Event]:
        """End what was idle or half closed for too long."""
        for name in self._idle.expire(now - self._limits.idle_time):
            self._sessions.pop(name)
        for subflow in self._closing.expire(now - self._limits.closing_time):
            self._counts[Count.TIMED_OUT] += 1
            yield from self.close_subflow(subflow, now, Ended.TIMEOUT)


def _may_close(keys: Keys | None, name: int, outgoing: bool, given: bytes) -> bool:
    """Whether MP_FASTCLOSE carries the key of the side that it is sent to (RFC 8684 section 3.5).

    Without the session's keys, the token verifies the listener's key (section 3.2); outgoing ones are the listener's
    own.
    """
    if keys is None:
        return outgoing or token(given) == name
    return hmac.compare_digest(keys.client if outgoing else keys.listener, given)
