"""Handshakes as scripts: who sends what, and what is announced."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.sources.fair_lru import FairLru
from throttler.sources.limits import SECOND, Count, Limits
from throttler.sources.tracker import Tracker
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.keys import join_hmac
from tributary.wire.options import (
    AddAddr,
    MpCapable,
    MpFastclose,
    MpJoinAck,
    MpJoinSyn,
    MpJoinSynAck,
    MpPrio,
    Option,
    RemoveAddr,
    emit,
)
from tributary.wire.segments import Flags, Segment

CLIENT_KEY, LISTENER_KEY = bytes.fromhex("7df87092ca0d5735"), bytes.fromhex("a46c287fdfa5ea19")
CLIENT_NONCE, LISTENER_NONCE = bytes.fromhex("149589a0"), bytes.fromhex("feead300")
HMAC_B, HMAC_A = bytes.fromhex("fcc5d45b2e85a867"), bytes.fromhex("5aa57fa79641070cdfc99b3ab1570644d491b19e")
TOKEN = 0x8F3778F8
FIRST = FourTuple("10.0.1.1", 3128, "10.0.1.2", 40001)
SECOND_SUBFLOW = FourTuple("10.0.1.1", 3128, "10.0.2.2", 40002)
SYN, ACK, FIN, RST = Flags.SYN, Flags.ACK, Flags.FIN, Flags.RST
START = 1_000_000 * SECOND


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8))
def test_hmac_is_as_rfc_8684_section_3_2_defines_it(key_a: bytes, key_b: bytes) -> None:
    whole = hmac.new(key_a + key_b, CLIENT_NONCE + LISTENER_NONCE, hashlib.sha256).digest()
    assert join_hmac(key_a, key_b, CLIENT_NONCE, LISTENER_NONCE) == whole[:20]


class Script:
    """Feeds segments and gathers events; a nanosecond passes with each."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.tracker = Tracker(limits)
        self.now = START

    def client(self, flags: Flags, *options: Option, subflow: FourTuple = FIRST, raw: bytes = b"") -> list[Event]:
        return self.see(flags, False, subflow, b"".join(map(emit, options)) + raw)

    def listener(self, flags: Flags, *options: Option, subflow: FourTuple = FIRST) -> list[Event]:
        return self.see(flags, True, subflow, b"".join(map(emit, options)))

    def see(self, flags: Flags, outgoing: bool, subflow: FourTuple, options: bytes) -> list[Event]:
        self.now += 1
        ends = (subflow.local, subflow.local_port), (subflow.remote, subflow.remote_port)
        source, destination = ends if outgoing else ends[::-1]
        interface = "wired" if subflow == FIRST else "wireless"
        return list(self.tracker.handle(Segment(self.now, interface, outgoing, *source, *destination, flags, options)))

    def ask(self, subflow: FourTuple = FIRST) -> list[Event]:
        """The first packet of a session."""
        return self.client(SYN, MpCapable(1, 1), subflow=subflow)

    def answer(self, subflow: FourTuple = FIRST, key: bytes = LISTENER_KEY) -> list[Event]:
        return self.listener(SYN | ACK, MpCapable(1, 1, key), subflow=subflow)

    def prove(self, subflow: FourTuple = FIRST, key: bytes = LISTENER_KEY) -> list[Event]:
        """The third one."""
        return self.client(ACK, MpCapable(1, 1, CLIENT_KEY, key), subflow=subflow)

    def open(self, subflow: FourTuple = FIRST, listener_key: bytes = LISTENER_KEY) -> list[Event]:
        return [*self.ask(subflow), *self.answer(subflow, listener_key), *self.prove(subflow, listener_key)]

    def ask_join(self, subflow: FourTuple = SECOND_SUBFLOW, nonce: bytes = CLIENT_NONCE) -> list[Event]:
        return self.client(SYN, MpJoinSyn(False, 3, TOKEN, nonce), subflow=subflow)

    def answer_join(self, subflow: FourTuple = SECOND_SUBFLOW, proof: bytes = HMAC_B) -> list[Event]:
        return self.listener(SYN | ACK, MpJoinSynAck(False, 1, proof, LISTENER_NONCE), subflow=subflow)

    def prove_join(self, subflow: FourTuple = SECOND_SUBFLOW, proof: bytes = HMAC_A) -> list[Event]:
        return self.client(ACK, MpJoinAck(proof), subflow=subflow)

    def join(self, subflow: FourTuple = SECOND_SUBFLOW, proof: bytes = HMAC_A) -> list[Event]:
        return [*self.ask_join(subflow), *self.answer_join(subflow), *self.prove_join(subflow, proof)]

    def count(self, what: Count) -> int:
        return self.tracker.counts[what]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def asked(script: Script) -> Script:
    """A client has asked for a session, and was answered."""
    script.ask()
    script.answer()
    return script


@pytest.fixture
def opened(script: Script) -> Script:
    """With one session."""
    script.open()
    return script


def test_a_first_handshake_announces_the_initial_subflow(script: Script) -> None:
    assert script.open() == [SubflowEstablished(script.now, TOKEN, FIRST, "wired", initial=True)]


def test_the_keys_may_come_with_the_first_data_when_the_third_ack_was_lost(asked: Script) -> None:
    assert len(asked.client(ACK, MpCapable(1, 1, CLIENT_KEY, LISTENER_KEY, data_length=4))) == 1


def test_a_join_is_announced_at_its_third_ack_and_not_before(opened: Script) -> None:
    assert opened.client(SYN, MpJoinSyn(True, 3, TOKEN, CLIENT_NONCE), subflow=SECOND_SUBFLOW) == []
    answer = MpJoinSynAck(False, 1, HMAC_B, LISTENER_NONCE)
    assert opened.listener(SYN | ACK, answer, subflow=SECOND_SUBFLOW) == []
    assert opened.prove_join() == [SubflowEstablished(opened.now, TOKEN, SECOND_SUBFLOW, "wireless", backup=True)]


def test_the_interface_is_the_one_that_the_answer_leaves_by(script: Script) -> None:
    segment = Segment(START, "wired", False, "10.0.1.2", 1, "10.0.1.1", 2, SYN, emit(MpCapable(1, 1)))
    answered = emit(MpCapable(1, 1, LISTENER_KEY))
    answer = Segment(START, "other", True, "10.0.1.1", 2, "10.0.1.2", 1, SYN | ACK, answered)
    third = replace(segment, flags=ACK, options=emit(MpCapable(1, 1, CLIENT_KEY, LISTENER_KEY)))
    events = [event for one in (segment, answer, third) for event in script.tracker.handle(one)]
    assert [event.interface for event in events if isinstance(event, SubflowEstablished)] == ["other"]


def test_every_segment_twice_changes_nothing(script: Script) -> None:
    first = (script.ask, script.answer, script.prove)
    joined = (script.ask_join, script.answer_join, script.prove_join)
    assert len([event for step in (*first, *joined) for _ in range(2) for event in step()]) == 2


def test_join_with_unknown_token_is_ignored(script: Script) -> None:
    assert script.join() == []
    assert script.count(Count.UNKNOWN_TOKEN) == 1


def test_join_with_wrong_hmac_is_ignored_and_the_right_one_still_taken(opened: Script) -> None:
    assert opened.join(proof=bytes(20)) == []
    assert opened.count(Count.WRONG_HMAC) == 1
    assert len(opened.prove_join()) == 1


@pytest.mark.parametrize(
    ("answer", "counted"),
    [(lambda opened: opened.answer_join(proof=bytes(8)), Count.WRONG_HMAC), (lambda _: None, Count.UNANSWERED)],
    ids=["a wrong HMAC", "nothing"],
)
def test_join_answered_wrongly_is_ignored(opened: Script, answer: Callable[[Script], object], counted: Count) -> None:
    opened.ask_join()
    answer(opened)
    assert opened.prove_join() == []
    assert opened.count(counted) == 1


def test_a_client_cannot_answer_its_own_syn(script: Script) -> None:
    script.ask()
    script.client(SYN | ACK, MpCapable(1, 1, LISTENER_KEY))
    assert script.prove() == []
    assert script.count(Count.WRONG_DIRECTION) == 1


def test_a_forged_syn_does_not_replace_the_nonce_of_an_answered_one(opened: Script) -> None:
    opened.ask_join()
    opened.answer_join()
    opened.ask_join(nonce=bytes(4))
    assert len(opened.prove_join()) == 1


@pytest.mark.parametrize(
    "answer",
    [
        [],
        *([MpCapable(version, 1, LISTENER_KEY)] for version in (0, 2)),
        *([MpCapable(1, flags, LISTENER_KEY)] for flags in (0, 0x41)),
        [MpCapable(1, 1)],
        [MpCapable(1, 1, LISTENER_KEY, CLIENT_KEY)],
    ],
)
def test_an_answer_that_is_not_mptcp_version_1_is_a_fallback(script: Script, answer: list[Option]) -> None:
    script.ask()
    script.listener(SYN | ACK, *answer)
    assert script.prove() == []
    assert script.count(Count.FALLBACK) == 1


def test_a_third_ack_without_the_option_is_a_fallback_and_one_with_a_wrong_key_ignored(asked: Script) -> None:
    assert asked.client(ACK, MpCapable(1, 1, CLIENT_KEY, CLIENT_KEY)) == []
    assert asked.count(Count.WRONG_KEY) == 1
    assert asked.client(ACK | FIN) == []
    assert asked.prove() == []
    assert asked.count(Count.FALLBACK) == 1


def test_malformed_options_are_counted_and_the_flags_still_hold(opened: Script) -> None:
    assert opened.client(RST, raw=b"\x1e\x00") == [SubflowClosed(opened.now, TOKEN, FIRST, Ended.RESET)]
    assert opened.count(Count.MALFORMED) == 1


@pytest.mark.parametrize("outgoing", [True, False])
def test_a_reset_from_either_side_ends_the_subflow(opened: Script, outgoing: bool) -> None:
    opened.join()
    events = opened.see(RST, outgoing, SECOND_SUBFLOW, b"")
    assert events == [SubflowClosed(opened.now, TOKEN, SECOND_SUBFLOW, Ended.RESET)]


def test_a_subflow_ends_when_both_sides_sent_fin(opened: Script) -> None:
    assert opened.listener(FIN | ACK) == []
    assert opened.listener(FIN | ACK) == []
    assert opened.client(FIN | ACK) == [SubflowClosed(opened.now, TOKEN, FIRST, Ended.FIN)]


def test_a_reset_of_a_handshake_forgets_it(asked: Script) -> None:
    asked.listener(RST)
    assert asked.prove() == []


def test_a_fast_close_with_the_receivers_key_ends_the_session(opened: Script) -> None:
    opened.join()
    events = opened.client(RST, MpFastclose(LISTENER_KEY))
    assert events == [SessionClosed(opened.now, TOKEN, Ended.FASTCLOSE)]
    assert opened.join() == []
    assert opened.count(Count.UNKNOWN_TOKEN) == 1


def test_a_fast_close_with_another_key_is_ignored(opened: Script) -> None:
    assert opened.client(ACK, MpFastclose(CLIENT_KEY)) == []
    assert opened.listener(ACK, MpFastclose(LISTENER_KEY)) == []
    assert opened.count(Count.WRONG_KEY) == 2


def test_only_the_clients_priority_counts(opened: Script) -> None:
    assert opened.listener(ACK, MpPrio(True)) == []
    assert opened.client(ACK, MpPrio(True)) == [SubflowPriority(opened.now, TOKEN, FIRST, True)]


def test_a_session_outlives_its_last_subflow_for_a_minute(opened: Script) -> None:
    opened.client(RST)
    opened.now += 59 * SECOND
    assert len(opened.join()) == 1
    opened.client(RST, subflow=SECOND_SUBFLOW)
    opened.now += 61 * SECOND
    assert opened.join() == []
    assert opened.count(Count.UNKNOWN_TOKEN) == 1


def test_a_port_used_again_ends_the_old_subflow(opened: Script) -> None:
    events = opened.open(listener_key=bytes(8))
    assert events[0] == SubflowClosed(opened.now, TOKEN, FIRST, Ended.REPLACED)
    assert isinstance(events[1], SubflowEstablished)


def test_a_handshake_that_takes_longer_than_a_minute_is_forgotten(asked: Script) -> None:
    asked.now += 61 * SECOND
    assert asked.prove() == []
    assert asked.count(Count.HALF_OPEN_EXPIRED) == 1


def test_a_flood_of_syns_stays_within_the_table_and_spares_what_is_established() -> None:
    script = Script(Limits(half_open=100))
    script.open()
    for port in range(1000):
        script.client(SYN, MpCapable(1, 1), subflow=FourTuple("10.0.1.1", 3128, "10.9.9.9", port))
        join = MpJoinSyn(False, 3, TOKEN, bytes(4))
        script.client(SYN, join, subflow=FourTuple("10.0.1.1", 3128, "10.9.9.8", port))
    assert script.count(Count.HALF_OPEN_EVICTED) == 1800
    assert len(script.join()) == 1


def test_the_oldest_session_and_the_oldest_subflow_make_room() -> None:
    script = Script(Limits(sessions=1))
    script.open()
    events = script.open(subflow=SECOND_SUBFLOW, listener_key=bytes(8))
    assert events[0] == SessionClosed(script.now, TOKEN, Ended.EVICTED)
    assert isinstance(events[1], SubflowEstablished)
    script = Script(Limits(subflows=1))
    script.open()
    assert script.join() == [
        SubflowClosed(script.now, TOKEN, FIRST, Ended.EVICTED),
        SubflowEstablished(script.now, TOKEN, SECOND_SUBFLOW, "wireless"),
    ]
    assert script.count(Count.SUBFLOWS_EVICTED) == 1


def test_a_thousand_subflows_opened_and_closed_leave_nothing() -> None:
    script = Script()
    script.open()
    for port in range(1000):
        subflow = FourTuple("10.0.1.1", 3128, "10.0.2.2", port)
        assert len(script.join(subflow)) == 1
        assert len(script.client(RST, subflow=subflow)) == 1
    script.client(RST)
    script.now += 61 * SECOND
    script.client(ACK)
    parts = (*vars(script.tracker).values(), *vars(script.tracker._established).values())
    assert [len(part) for part in parts if isinstance(part, FairLru)] == [0] * 6


def test_a_subflow_that_only_one_side_closes_is_over_after_five_minutes(opened: Script) -> None:
    opened.client(FIN | ACK)
    opened.now += 200 * SECOND
    assert opened.client(FIN | ACK) == []
    opened.now += 99 * SECOND
    assert opened.client(ACK) == []
    opened.now += 2 * SECOND
    assert opened.client(ACK) == [SubflowClosed(opened.now, TOKEN, FIRST, Ended.TIMEOUT)]
    assert opened.count(Count.TIMED_OUT) == 1


def test_time_alone_ends_it_when_no_segment_comes(opened: Script) -> None:
    opened.listener(FIN | ACK)
    later = opened.now + 301 * SECOND
    assert list(opened.tracker.expire(later)) == [SubflowClosed(later, TOKEN, FIRST, Ended.TIMEOUT)]


FLAGS = st.integers(0, 31).map(Flags)
SUBFLOWS = st.sampled_from([FIRST, SECOND_SUBFLOW])
_RIGHT: list[Option] = [
    *(MpCapable(1, 1), MpCapable(1, 1, LISTENER_KEY), MpCapable(1, 1, CLIENT_KEY, LISTENER_KEY)),
    *(MpJoinSyn(False, 3, TOKEN, CLIENT_NONCE), MpJoinSynAck(False, 1, HMAC_B, LISTENER_NONCE), MpJoinAck(HMAC_A)),
    *(MpFastclose(LISTENER_KEY), MpPrio(True), AddAddr(False, 7, "10.0.3.2", None, bytes(8)), RemoveAddr((0, 3, 7))),
]
RIGHT_OPTIONS = st.sampled_from(_RIGHT).map(emit)


@given(
    st.lists(st.tuples(FLAGS, st.booleans(), SUBFLOWS, st.one_of(RIGHT_OPTIONS, st.binary(max_size=40))), max_size=30),
    st.sampled_from([Limits(), Limits(half_open=1, subflows=1)]),
)
def test_no_sequence_of_segments_raises_and_each_end_follows_a_beginning(
    segments: list[tuple[Flags, bool, FourTuple, bytes]], limits: Limits
) -> None:
    script = Script(limits)
    alive: set[tuple[int, FourTuple]] = set()
    for segment in segments:
        for event in script.see(*segment):
            match event:
                case SubflowEstablished():
                    assert (event.token, event.subflow) not in alive
                    alive.add((event.token, event.subflow))
                case SubflowClosed():
                    alive.remove((event.token, event.subflow))
                case SessionClosed():
                    alive = {name for name in alive if name[0] != event.token}
                case SubflowPriority():
                    assert (event.token, event.subflow) in alive
