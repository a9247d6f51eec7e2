"""Segments in, events out: follows the handshakes of RFC 8684 sections 3.1 and 3.2, and how subflows end.

A subflow is reported only after a valid third ACK, so that a forged SYN gets no class. All tables are bounded, and
each client has a share; ignored packets are counted. The client's segments must come in and the listener's go out: a
client cannot answer its own SYN. No input raises.
"""

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
from tributary.wire.segments import Flags, Segment, client_of


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


VERSION = 1
"""Of MPTCP: RFC 8684."""


@dataclass(slots=True)
class _Opening:
    """A session's first handshake; the SYN/ACK brings the listener's key and the interface."""

    listener_key: bytes = b""
    interface: str = ""


@dataclass(slots=True)
class _Joining:
    """A join's handshake; the SYN/ACK brings the listener's nonce and the interface."""

    syn: mptcp.MpJoinSyn
    listener_nonce: bytes = b""
    interface: str = ""


class Tracker:
    """The sessions whose first handshake it saw, and their subflows; ``counts`` has events and ignored packets.

    Iterators must be iterated to the end.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits = limits or Limits()
        self.counts: Counter[Count] = Counter()
        # Two tables: whoever joins knows a token, so that no flood of forged SYNs reaches the half-open joins.
        half_open = limits.half_open, limits.half_open_of_client
        self._openings: FairLru[FourTuple, _Opening] = FairLru(*half_open)
        self._joinings: FairLru[FourTuple, _Joining] = FairLru(*half_open)
        self._established = Established(limits, self.counts)

    def handle(self, segment: Segment) -> Iterator[Event]:
        """The events of ``segment``. Segments must be in order of time."""
        yield from self.expire(segment.time)
        options = self._options(segment)
        name = segment.subflow
        if Flags.SYN not in segment.flags:
            yield from self._third_ack(segment, name, options)
            yield from self._established.signals(segment, name, options)
            yield from self._end(segment, name)
        elif segment.outgoing != (Flags.ACK in segment.flags):
            self.counts[Count.WRONG_DIRECTION] += 1
        elif segment.outgoing:
            self._syn_ack(segment, name, options)
        else:
            self._syn(segment, name, options)

    def import_existing(self, event: SubflowEstablished) -> list[Event]:
        """Follow a subflow that was established before; returns evictions that it caused.

        Its session's keys are not known: joins cannot be verified, and all that the listener answers are accepted.
        """
        there = self._established
        found = there.add_subflow(event) if event.token in there.sessions else there.add_session(event, None)
        return [each for each in found if each is not event]

    def drop(self, subflow: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        """End a subflow for a reason that packets do not show."""
        yield from self._established.drop(subflow, now, reason)

    def expire(self, now: int) -> Iterator[Event]:
        """End at ``now`` what was half open, idle or half closed for too long; called for each segment, and by the
        clock without segments.
        """
        for table in (self._openings, self._joinings):
            self.counts[Count.HALF_OPEN_EXPIRED] += len(table.expire(now - self._limits.half_open_time))
        yield from self._established.expire(now)

    def _options(self, segment: Segment) -> tuple[mptcp.Option, ...]:
        try:
            return mptcp.parse(segment.options)
        except mptcp.ParseError:
            # The segment's flags still hold: receivers act on a RST whatever its options are.
            self.counts[Count.MALFORMED] += 1
            return ()

    # SYN

    def _syn(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> None:
        for option in options:
            if isinstance(option, mptcp.MpCapable):
                opening = self._openings.get(name)
                if opening is None or not opening.listener_key:
                    self._count_eviction(self._openings.put(name, _Opening(), segment.time, client_of(name.remote)))
            elif isinstance(option, mptcp.MpJoinSyn):
                self._syn_join(segment, name, option)

    def _syn_join(self, segment: Segment, name: FourTuple, join: mptcp.MpJoinSyn) -> None:
        session, joining = self._established.sessions.get(join.receiver_token), self._joinings.get(name)
        if session is None:
            self.counts[Count.UNKNOWN_TOKEN] += 1
        elif joining is None or not joining.listener_nonce:
            # It counts for the session's client: a sender that knows the token can use any address.
            self._count_eviction(self._joinings.put(name, _Joining(join), segment.time, session.client))

    def _count_eviction(self, evicted: object) -> None:
        self.counts[Count.HALF_OPEN_EVICTED] += evicted is not None

    # SYN/ACK

    def _syn_ack(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> None:
        opening, joining = self._openings.get(name), self._joinings.get(name)
        if opening is not None:
            capable = _capable(options)
            if capable is None or not _is_answer(capable):
                self._fall_back(name)
            else:
                opening.listener_key, opening.interface = capable.sender_key or b"", segment.interface
        for option in options:
            if joining is not None and isinstance(option, mptcp.MpJoinSynAck):
                self._syn_ack_join(segment, joining, option)

    def _fall_back(self, name: FourTuple) -> None:
        self._openings.pop(name)
        self.counts[Count.FALLBACK] += 1

    def _syn_ack_join(self, segment: Segment, joining: _Joining, answer: mptcp.MpJoinSynAck) -> None:
        session = self._established.sessions.get(joining.syn.receiver_token)
        if session is None:
            return
        if session.keys is not None and not session.keys.prove_listener(joining.syn, answer):
            self.counts[Count.WRONG_HMAC] += 1
            return
        joining.listener_nonce, joining.interface = answer.sender_nonce, segment.interface

    # Third ACK

    def _third_ack(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        if segment.outgoing or Flags.RST in segment.flags:
            return
        opening = self._openings.get(name)
        if opening is not None:
            yield from self._opened(segment, name, opening, options)
        joining = self._joinings.get(name)
        for option in options:
            if joining is not None and isinstance(option, mptcp.MpJoinAck):
                yield from self._joined(segment, name, joining, option)

    def _opened(
        self, segment: Segment, name: FourTuple, opening: _Opening, options: tuple[mptcp.Option, ...]
    ) -> Iterator[Event]:
        capable = _capable(options)
        if not opening.listener_key:
            self._openings.pop(name)
            self.counts[Count.UNANSWERED] += 1
        elif capable is None:
            # RFC 8684 section 3.1: without the option in the third packet the session is plain TCP.
            self._fall_back(name)
        elif capable.receiver_key != opening.listener_key or capable.sender_key is None:
            self.counts[Count.WRONG_KEY] += 1
        else:
            self._openings.pop(name)
            self.counts[Count.SESSIONS] += 1
            session = token(opening.listener_key)
            event = SubflowEstablished(segment.time, session, name, opening.interface, initial=True)
            yield from self._established.add_session(event, Keys(opening.listener_key, capable.sender_key))

    def _joined(self, segment: Segment, name: FourTuple, joining: _Joining, ack: mptcp.MpJoinAck) -> Iterator[Event]:
        join = joining.syn
        session = self._established.sessions.get(join.receiver_token)
        if session is None or not joining.listener_nonce:
            self._joinings.pop(name)
            self.counts[Count.UNANSWERED] += 1
            return
        if session.keys is not None and not session.keys.prove_client(join, joining.listener_nonce, ack):
            self.counts[Count.WRONG_HMAC] += 1
            return
        self._joinings.pop(name)
        self.counts[Count.UNPROVEN if session.keys is None else Count.JOINS] += 1
        yield from self._established.add_subflow(
            SubflowEstablished(segment.time, join.receiver_token, name, joining.interface, backup=join.backup)
        )

    # The end

    def _end(self, segment: Segment, name: FourTuple) -> Iterator[Event]:
        if Flags.RST in segment.flags:
            self._openings.pop(name)
            self._joinings.pop(name)
            yield from self._established.close_subflow(name, segment.time, Ended.RESET)
        elif Flags.FIN in segment.flags:
            yield from self._established.on_fin(name, segment.time, segment.outgoing)


def _capable(options: tuple[mptcp.Option, ...]) -> mptcp.MpCapable | None:
    return next((option for option in options if isinstance(option, mptcp.MpCapable)), None)


def _is_answer(option: mptcp.MpCapable) -> bool:
    """Whether a SYN/ACK's MP_CAPABLE starts an MPTCP session that we understand (RFC 8684 section 3.1)."""
    return (
        option.version == VERSION
        and option.sender_key is not None
        and option.receiver_key is None
        and bool(option.flags & mptcp.HMAC_SHA256)
        and not option.flags & mptcp.EXTENSIBILITY
    )
