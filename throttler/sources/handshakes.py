"""Segments in, events out: follows the handshakes of RFC 8684 sections 3.1 and 3.2, and how subflows end.

A subflow is announced only when the third ACK is right, so that nobody gets a class by a forged SYN. All tables are
bounded; whatever is ignored is counted. The client's segments must come in and the listener's must go out: a client
cannot answer its own SYN. No input raises.
"""

import hmac
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from throttler.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from throttler.sources.bounded import Bounded
from throttler.wire import options as mptcp
from throttler.wire.keys import join_hmac, token
from throttler.wire.segments import Flags, FourTuple, Segment

SECOND = 10**9
VERSION = 1
"""Of MPTCP: RFC 8684."""


class Count(StrEnum):
    """What is counted: what came about, and what was ignored."""

    SESSIONS = "sessions established"
    JOINS = "joins established"
    MALFORMED = "malformed TCP options"
    FALLBACK = "fallbacks to plain TCP"
    UNKNOWN_TOKEN = "joins with an unknown token"
    WRONG_KEY = "wrong keys"
    WRONG_HMAC = "wrong HMACs"
    UNANSWERED = "third ACKs without a SYN/ACK"
    WRONG_DIRECTION = "SYNs in the wrong direction"
    HALF_OPEN_EVICTED = "half-open handshakes evicted"
    HALF_OPEN_EXPIRED = "half-open handshakes expired"
    SESSIONS_EVICTED = "sessions evicted"
    SUBFLOWS_REFUSED = "subflows beyond the table"


@dataclass(frozen=True)
class Limits:
    """Entries per table, and nanoseconds that an entry stays."""

    half_open: int = 16_384
    sessions: int = 65_536
    subflows: int = 131_072
    # A SYN/ACK is sent again after 1, 3, 7, 15 and 31 seconds; then Linux gives up.
    half_open_time: int = 60 * SECOND
    # A session outlives its last subflow: break before make (RFC 8684 section 3.6).
    idle_time: int = 60 * SECOND


@dataclass
class _Opening:
    """A session's first handshake; the listener's key and the interface come with its SYN/ACK."""

    listener_key: bytes | None = None
    interface: str = ""


@dataclass
class _Joining:
    """A join's handshake; the listener's nonce and the interface come with its SYN/ACK."""

    token: int
    address_id: int
    backup: bool
    client_nonce: bytes
    listener_nonce: bytes | None = None
    interface: str = ""


@dataclass
class _Session:
    listener_key: bytes
    client_key: bytes
    subflows: set[FourTuple] = field(default_factory=set)


@dataclass
class _Subflow:
    token: int
    fin_sent: bool = False
    fin_received: bool = False


class Handshakes:
    """Knows the sessions whose first handshake it saw; ``counts`` says what came about and what was ignored."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._openings: Bounded[FourTuple, _Opening] = Bounded(self._limits.half_open)
        self._joinings: Bounded[FourTuple, _Joining] = Bounded(self._limits.half_open)
        self._sessions: Bounded[int, _Session] = Bounded(self._limits.sessions)
        self._idle: Bounded[int, None] = Bounded(self._limits.sessions)
        self._subflows: dict[FourTuple, _Subflow] = {}
        self.counts: Counter[Count] = Counter()

    def see(self, segment: Segment) -> Iterator[Event]:
        """What ``segment`` brought about; it must be iterated to the end. Segments come in the order of their time."""
        self._expire(segment.time)
        options = self._options(segment)
        if Flags.SYN not in segment.flags:
            yield from self._third_ack(segment, options)
            yield from self._signals(segment, options)
            yield from self._end(segment)
        elif segment.outgoing != (Flags.ACK in segment.flags):
            self.counts[Count.WRONG_DIRECTION] += 1
        elif segment.outgoing:
            self._syn_ack(segment, options)
        else:
            self._syn(segment, options)

    def _options(self, segment: Segment) -> tuple[mptcp.Option, ...]:
        try:
            return mptcp.parse(segment.options)
        except mptcp.ParseError:
            # The segment's flags still hold: receivers act on a RST whatever its options are.
            self.counts[Count.MALFORMED] += 1
            return ()

    def _expire(self, now: int) -> None:
        for table in (self._openings, self._joinings):
            self.counts[Count.HALF_OPEN_EXPIRED] += len(table.expire(now - self._limits.half_open_time))
        for name in self._idle.expire(now - self._limits.idle_time):
            self._sessions.pop(name)

    # SYN

    def _syn(self, segment: Segment, options: tuple[mptcp.Option, ...]) -> None:
        for option in options:
            if isinstance(option, mptcp.MpCapable):
                self._syn_capable(segment)
            elif isinstance(option, mptcp.MpJoinSyn):
                self._syn_join(segment, option)

    def _syn_capable(self, segment: Segment) -> None:
        known = self._openings.get(segment.subflow)
        if known is None or known.listener_key is None:
            evicted = self._openings.put(segment.subflow, _Opening(), segment.time)
            self.counts[Count.HALF_OPEN_EVICTED] += evicted is not None

    def _syn_join(self, segment: Segment, join: mptcp.MpJoinSyn) -> None:
        if join.receiver_token not in self._sessions:
            self.counts[Count.UNKNOWN_TOKEN] += 1
            return
        known = self._joinings.get(segment.subflow)
        if known is None or known.listener_nonce is None:
            opened = _Joining(join.receiver_token, join.address_id, join.backup, join.sender_nonce)
            evicted = self._joinings.put(segment.subflow, opened, segment.time)
            self.counts[Count.HALF_OPEN_EVICTED] += evicted is not None

    # SYN/ACK

    def _syn_ack(self, segment: Segment, options: tuple[mptcp.Option, ...]) -> None:
        if segment.subflow in self._openings:
            self._syn_ack_capable(segment, options)
        if segment.subflow in self._joinings:
            for option in options:
                if isinstance(option, mptcp.MpJoinSynAck):
                    self._syn_ack_join(segment, option)

    def _syn_ack_capable(self, segment: Segment, options: tuple[mptcp.Option, ...]) -> None:
        opening = self._openings.get(segment.subflow)
        answer = next((option for option in options if isinstance(option, mptcp.MpCapable)), None)
        if opening is None:
            return
        if answer is None or not _is_answer(answer):
            self._fall_back(segment.subflow)
            return
        opening.listener_key = answer.sender_key
        opening.interface = segment.interface

    def _fall_back(self, subflow: FourTuple) -> None:
        self._openings.pop(subflow)
        self.counts[Count.FALLBACK] += 1

    def _syn_ack_join(self, segment: Segment, answer: mptcp.MpJoinSynAck) -> None:
        joining = self._joinings.get(segment.subflow)
        session = self._sessions.get(joining.token) if joining else None
        if joining is None or session is None:
            return
        # RFC 8684 section 3.2: HMAC-B, its leftmost 64 bits.
        proof = join_hmac(session.listener_key, session.client_key, answer.sender_nonce, joining.client_nonce)
        if not hmac.compare_digest(proof[: mptcp.HMAC_IN_SYN_ACK], answer.hmac):
            self.counts[Count.WRONG_HMAC] += 1
            return
        joining.listener_nonce = answer.sender_nonce
        joining.interface = segment.interface

    # Third ACK

    def _third_ack(self, segment: Segment, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        if segment.outgoing or Flags.RST in segment.flags:
            return
        opening = self._openings.get(segment.subflow)
        if opening is not None:
            yield from self._opened(segment, opening, options)
        joining = self._joinings.get(segment.subflow)
        for option in options:
            if joining is not None and isinstance(option, mptcp.MpJoinAck):
                yield from self._joined(segment, joining, option)

    def _opened(self, segment: Segment, opening: _Opening, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        capable = next((option for option in options if isinstance(option, mptcp.MpCapable)), None)
        if opening.listener_key is None:
            self._openings.pop(segment.subflow)
            self.counts[Count.UNANSWERED] += 1
        elif capable is None:
            # RFC 8684 section 3.1: without the option in the third packet the session is plain TCP.
            self._fall_back(segment.subflow)
        elif capable.receiver_key != opening.listener_key or capable.sender_key is None:
            self.counts[Count.WRONG_KEY] += 1
        else:
            self._openings.pop(segment.subflow)
            session = _Session(opening.listener_key, capable.sender_key)
            name = token(opening.listener_key)
            yield from self._new_session(name, session, segment.time)
            self.counts[Count.SESSIONS] += 1
            event = SubflowEstablished(segment.time, name, segment.subflow, opening.interface, initial=True)
            yield from self._new_subflow(session, event)

    def _new_session(self, name: int, session: _Session, now: int) -> Iterator[Event]:
        yield from self._close_session(name, now, Ended.REPLACED)
        evicted = self._sessions.put(name, session, now)
        if evicted is not None:
            self.counts[Count.SESSIONS_EVICTED] += 1
            self._forget(*evicted)
            yield SessionClosed(now, evicted[0], Ended.EVICTED)
        self._idle.put(name, None, now)

    def _joined(self, segment: Segment, joining: _Joining, ack: mptcp.MpJoinAck) -> Iterator[Event]:
        session = self._sessions.get(joining.token)
        if session is None or joining.listener_nonce is None:
            self._joinings.pop(segment.subflow)
            self.counts[Count.UNANSWERED] += 1
            return
        # RFC 8684 section 3.2: HMAC-A, its leftmost 160 bits.
        proof = join_hmac(session.client_key, session.listener_key, joining.client_nonce, joining.listener_nonce)
        if not hmac.compare_digest(proof, ack.hmac):
            self.counts[Count.WRONG_HMAC] += 1
            return
        self._joinings.pop(segment.subflow)
        self.counts[Count.JOINS] += 1
        yield from self._new_subflow(
            session,
            SubflowEstablished(
                time=segment.time,
                token=joining.token,
                subflow=segment.subflow,
                interface=joining.interface,
                address_id=joining.address_id,
                backup=joining.backup,
            ),
        )

    def _new_subflow(self, session: _Session, event: SubflowEstablished) -> Iterator[Event]:
        # A port used again: the end of the old subflow was missed.
        yield from self._close_subflow(event.subflow, event.time, Ended.REPLACED)
        if len(self._subflows) >= self._limits.subflows:
            self.counts[Count.SUBFLOWS_REFUSED] += 1
            return
        session.subflows.add(event.subflow)
        self._subflows[event.subflow] = _Subflow(event.token)
        self._idle.pop(event.token)
        yield event

    # What an established subflow says, and its end

    def _signals(self, segment: Segment, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        subflow = self._subflows.get(segment.subflow)
        if subflow is None:
            return
        for option in options:
            if isinstance(option, mptcp.MpPrio) and not segment.outgoing:
                yield SubflowPriority(segment.time, subflow.token, segment.subflow, option.backup)
            elif isinstance(option, mptcp.MpFastclose):
                yield from self._fastclose(segment, subflow.token, option)

    def _fastclose(self, segment: Segment, name: int, option: mptcp.MpFastclose) -> Iterator[Event]:
        session = self._sessions.get(name)
        if session is None:
            return
        # RFC 8684 section 3.5: only with the key of the side that it is sent to.
        key = session.client_key if segment.outgoing else session.listener_key
        if hmac.compare_digest(key, option.receiver_key):
            yield from self._close_session(name, segment.time, Ended.FASTCLOSE)
        else:
            self.counts[Count.WRONG_KEY] += 1

    def _end(self, segment: Segment) -> Iterator[Event]:
        if Flags.RST in segment.flags:
            self._openings.pop(segment.subflow)
            self._joinings.pop(segment.subflow)
            yield from self._close_subflow(segment.subflow, segment.time, Ended.RESET)
        subflow = self._subflows.get(segment.subflow)
        if subflow is None or Flags.FIN not in segment.flags:
            return
        subflow.fin_sent |= segment.outgoing
        subflow.fin_received |= not segment.outgoing
        if subflow.fin_sent and subflow.fin_received:
            yield from self._close_subflow(segment.subflow, segment.time, Ended.FIN)

    def _close_subflow(self, name: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        subflow = self._subflows.pop(name, None)
        if subflow is None:
            return
        session = self._sessions.get(subflow.token)
        if session is not None:
            session.subflows.discard(name)
            if not session.subflows:
                self._idle.put(subflow.token, None, now)
        yield SubflowClosed(now, subflow.token, name, reason)

    def _close_session(self, name: int, now: int, reason: Ended) -> Iterator[Event]:
        session = self._sessions.pop(name)
        if session is not None:
            self._forget(name, session)
            yield SessionClosed(now, name, reason)

    def _forget(self, name: int, session: _Session) -> None:
        self._idle.pop(name)
        for subflow in session.subflows:
            self._subflows.pop(subflow, None)


def _is_answer(option: mptcp.MpCapable) -> bool:
    """Whether a SYN/ACK's MP_CAPABLE starts an MPTCP session that we understand (RFC 8684 section 3.1)."""
    return (
        option.version == VERSION
        and option.sender_key is not None
        and option.receiver_key is None
        and bool(option.flags & mptcp.HMAC_SHA256)
        and not option.flags & mptcp.EXTENSIBILITY
    )
