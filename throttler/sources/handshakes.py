"""Segments in, events out: follows the handshakes of RFC 8684 sections 3.1 and 3.2, and how subflows end.

A subflow is reported only after a valid third ACK, so that a forged SYN gets no class. All tables are bounded, and
each client has a share; ignored packets are counted. The client's segments must come in and the listener's go out: a
client cannot answer its own SYN. No input raises.
"""

import hmac
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from throttler.sources.established import SECOND, Count, Established, Keys, Limits, TrackedSession
from throttler.sources.fair_lru import FairLru
from tributary.mptcp.events import AddressAnnounced, AddressRemoved, Ended, Event, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire import options as mptcp
from tributary.wire.keys import address_hmac, join_hmac, token
from tributary.wire.segments import Flags, Segment, client_of

__all__ = ["SECOND", "Count", "Handshakes", "Limits"]

VERSION = 1
"""Of MPTCP: RFC 8684."""


@dataclass(slots=True)
class _Opening:
    """A session's first handshake; the SYN/ACK brings the listener's key and the interface."""

    listener_key: bytes | None = None
    interface: str = ""


@dataclass(slots=True)
class _Joining:
    """A join's handshake; the SYN/ACK brings the listener's nonce and the interface."""

    token: int
    address_id: int
    backup: bool
    client_nonce: bytes
    listener_nonce: bytes | None = None
    interface: str = ""


class Handshakes:
    """Tracks the sessions whose first handshake it saw; ``counts`` has events and ignored packets."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self.counts: Counter[Count] = Counter()
        half_open = self._limits.half_open, self._limits.half_open_of_client
        self._openings: FairLru[FourTuple, _Opening] = FairLru(*half_open)
        self._joinings: FairLru[FourTuple, _Joining] = FairLru(*half_open)
        self._established = Established(self._limits, self.counts)

    def handle(self, segment: Segment) -> Iterator[Event]:
        """The events of ``segment``; iterate to the end. Segments must be in order of time."""
        yield from self.expire(segment.time)
        options = self._options(segment)
        name = segment.subflow
        if Flags.SYN not in segment.flags:
            yield from self._third_ack(segment, name, options)
            yield from self._signals(segment, name, options)
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
        table = self._established
        found = table.add_session(event, None) if table.session(event.token) is None else table.add_subflow(event)
        return [each for each in found if each is not event]

    def drop(self, subflow: FourTuple, now: int, reason: Ended) -> Iterator[Event]:
        """End a subflow for a reason that packets do not show."""
        if self._established.subflow(subflow) is not None and reason is Ended.TIMEOUT:
            self.counts[Count.SILENT] += 1
        yield from self._established.close_subflow(subflow, now, reason)

    def expire(self, now: int) -> Iterator[Event]:
        """Expire entries at ``now``; called for each segment, and by the clock without segments."""
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
                self._syn_capable(segment, name)
            elif isinstance(option, mptcp.MpJoinSyn):
                self._syn_join(segment, name, option)

    def _syn_capable(self, segment: Segment, name: FourTuple) -> None:
        known = self._openings.get(name)
        if known is None or known.listener_key is None:
            evicted = self._openings.put(name, _Opening(), segment.time, client_of(name.remote))
            self.counts[Count.HALF_OPEN_EVICTED] += evicted is not None

    def _syn_join(self, segment: Segment, name: FourTuple, join: mptcp.MpJoinSyn) -> None:
        session = self._established.session(join.receiver_token)
        if session is None:
            self.counts[Count.UNKNOWN_TOKEN] += 1
            return
        known = self._joinings.get(name)
        if known is None or known.listener_nonce is None:
            opened = _Joining(join.receiver_token, join.address_id, join.backup, join.sender_nonce)
            # It counts for the session's client: a sender that knows the token can use any address.
            evicted = self._joinings.put(name, opened, segment.time, session.client)
            self.counts[Count.HALF_OPEN_EVICTED] += evicted is not None

    # SYN/ACK

    def _syn_ack(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> None:
        opening, joining = self._openings.get(name), self._joinings.get(name)
        if opening is not None:
            self._syn_ack_capable(segment, name, opening, options)
        if joining is not None:
            for option in options:
                if isinstance(option, mptcp.MpJoinSynAck):
                    self._syn_ack_join(segment, joining, option)

    def _syn_ack_capable(
        self, segment: Segment, name: FourTuple, opening: _Opening, options: tuple[mptcp.Option, ...]
    ) -> None:
        answer = next((option for option in options if isinstance(option, mptcp.MpCapable)), None)
        if answer is None or not _is_answer(answer):
            self._fall_back(name)
            return
        opening.listener_key = answer.sender_key
        opening.interface = segment.interface

    def _fall_back(self, name: FourTuple) -> None:
        self._openings.pop(name)
        self.counts[Count.FALLBACK] += 1

    def _syn_ack_join(self, segment: Segment, joining: _Joining, answer: mptcp.MpJoinSynAck) -> None:
        session = self._established.session(joining.token)
        if session is None:
            return
        if session.keys is not None and not _is_proven_by_listener(session.keys, joining, answer):
            self.counts[Count.WRONG_HMAC] += 1
            return
        joining.listener_nonce = answer.sender_nonce
        joining.interface = segment.interface

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
        capable = next((option for option in options if isinstance(option, mptcp.MpCapable)), None)
        if opening.listener_key is None:
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
        session = self._established.session(joining.token)
        if session is None or joining.listener_nonce is None:
            self._joinings.pop(name)
            self.counts[Count.UNANSWERED] += 1
            return
        if session.keys is not None and not _is_proven_by_client(session.keys, joining, ack):
            self.counts[Count.WRONG_HMAC] += 1
            return
        self._joinings.pop(name)
        self.counts[Count.UNPROVEN if session.keys is None else Count.JOINS] += 1
        yield from self._established.add_subflow(
            SubflowEstablished(
                time=segment.time,
                token=joining.token,
                subflow=name,
                interface=joining.interface,
                address_id=joining.address_id,
                backup=joining.backup,
            )
        )

    # What an established subflow says, and its end

    def _signals(self, segment: Segment, name: FourTuple, options: tuple[mptcp.Option, ...]) -> Iterator[Event]:
        for option in options:
            subflow = self._established.subflow(name)
            if subflow is None:
                return
            if isinstance(option, mptcp.MpFastclose):
                yield from self._established.fastclose(
                    subflow.token, segment.time, segment.outgoing, option.receiver_key
                )
            elif not segment.outgoing:
                yield from self._signal(segment, name, subflow.token, option)

    def _signal(self, segment: Segment, name: FourTuple, of: int, option: mptcp.Option) -> Iterator[Event]:
        """Handle an option that only the client may send."""
        session = self._established.session(of)
        if session is None:
            return
        if isinstance(option, mptcp.MpPrio):
            yield SubflowPriority(segment.time, of, name, option.backup)
        elif isinstance(option, mptcp.AddAddr) and not option.echo:
            yield from self._announced(segment.time, of, session, option)
        elif isinstance(option, mptcp.RemoveAddr):
            yield from self._removed(segment.time, of, session, option)

    def _announced(self, now: int, name: int, session: TrackedSession, option: mptcp.AddAddr) -> Iterator[Event]:
        if session.keys is not None and not _is_own_address(session.keys, option):
            self.counts[Count.WRONG_HMAC] += 1
            return
        known = session.addresses.get(option.address_id)
        if known == (option.address, option.port):
            # Sent again, since no echo came.
            return
        if option.address_id not in session.addresses and (len(session.addresses) >= self._limits.addresses_of_session):
            self.counts[Count.ADDRESSES_REFUSED] += 1
            return
        session.addresses[option.address_id] = option.address, option.port
        self.counts[Count.ANNOUNCED] += 1
        yield AddressAnnounced(now, name, option.address_id, option.address, option.port)

    def _removed(self, now: int, name: int, session: TrackedSession, option: mptcp.RemoveAddr) -> Iterator[Event]:
        for address_id in option.address_ids:
            if address_id in session.addresses:
                del session.addresses[address_id]
                self.counts[Count.REMOVED] += 1
                yield AddressRemoved(now, name, address_id)
            else:
                # RFC 8684 section 3.4.2: silently ignored.
                self.counts[Count.UNKNOWN_ADDRESS] += 1

    def _end(self, segment: Segment, name: FourTuple) -> Iterator[Event]:
        if Flags.RST in segment.flags:
            self._openings.pop(name)
            self._joinings.pop(name)
            yield from self._established.close_subflow(name, segment.time, Ended.RESET)
        elif Flags.FIN in segment.flags:
            yield from self._established.on_fin(name, segment.time, segment.outgoing)


def _is_proven_by_listener(keys: Keys, joining: _Joining, answer: mptcp.MpJoinSynAck) -> bool:
    """RFC 8684 section 3.2: HMAC-B, its leftmost 64 bits."""
    proof = join_hmac(keys.listener, keys.client, answer.sender_nonce, joining.client_nonce)
    return hmac.compare_digest(proof[: mptcp.HMAC_IN_SYN_ACK], answer.hmac)


def _is_proven_by_client(keys: Keys, joining: _Joining, ack: mptcp.MpJoinAck) -> bool:
    """RFC 8684 section 3.2: HMAC-A, its leftmost 160 bits."""
    proof = join_hmac(keys.client, keys.listener, joining.client_nonce, joining.listener_nonce or b"")
    return hmac.compare_digest(proof, ack.hmac)


def _is_own_address(keys: Keys, option: mptcp.AddAddr) -> bool:
    """RFC 8684 section 3.4.1: the client's HMAC, its rightmost 64 bits."""
    family = socket.AF_INET6 if ":" in option.address else socket.AF_INET
    address = socket.inet_pton(family, option.address)
    proof = address_hmac(keys.client, keys.listener, option.address_id, address, option.port)
    return hmac.compare_digest(proof, option.hmac or b"")


def _is_answer(option: mptcp.MpCapable) -> bool:
    """Whether a SYN/ACK's MP_CAPABLE starts an MPTCP session that we understand (RFC 8684 section 3.1)."""
    return (
        option.version == VERSION
        and option.sender_key is not None
        and option.receiver_key is None
        and bool(option.flags & mptcp.HMAC_SHA256)
        and not option.flags & mptcp.EXTENSIBILITY
    )
