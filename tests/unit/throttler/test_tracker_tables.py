"""Sessions that were there before, and floods, as scripts like those of test_tracker."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.test_tracker import (
    ACK,
    CLIENT_KEY,
    CLIENT_NONCE,
    FIN,
    FIRST,
    LISTENER_KEY,
    LISTENER_NONCE,
    RST,
    SECOND_SUBFLOW,
    START,
    SYN,
    TOKEN,
    Script,
)
from throttler.sources.fair_lru import FairLru
from throttler.sources.limits import Count, Limits
from tributary.mptcp.events import (
    Ended,
    Event,
    SessionClosed,
    SubflowClosed,
    SubflowEstablished,
)
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.keys import join_hmac, token
from tributary.wire.options import AddAddr, MpFastclose, MpJoinAck, MpJoinSyn, MpJoinSynAck, RemoveAddr


@pytest.fixture
def script() -> Script:
    return Script()


# Sessions that are older than the throttler

ADOPTED = SubflowEstablished(START, TOKEN, FIRST, "wired", initial=True)


@pytest.fixture
def adopted(script: Script) -> Script:
    assert script.tracker.import_existing(ADOPTED) == []
    return script


def test_a_join_to_an_adopted_session_is_taken_when_the_listener_answered_and_only_then(adopted: Script) -> None:
    adopted.ask_join()
    assert adopted.prove_join() == []
    assert adopted.count(Count.UNANSWERED) == 1
    assert adopted.join(proof=bytes(20)) == [SubflowEstablished(adopted.now, TOKEN, SECOND_SUBFLOW, "wireless")]
    assert (adopted.count(Count.UNPROVEN), adopted.count(Count.JOINS)) == (1, 0)


def test_an_adopted_subflow_ends_as_any_other(adopted: Script) -> None:
    assert adopted.tracker.import_existing(replace(ADOPTED, subflow=SECOND_SUBFLOW, initial=False)) == []
    assert adopted.client(RST) == [SubflowClosed(adopted.now, TOKEN, FIRST, Ended.RESET)]
    adopted.client(FIN | ACK, subflow=SECOND_SUBFLOW)
    events = adopted.listener(FIN | ACK, subflow=SECOND_SUBFLOW)
    assert events == [SubflowClosed(adopted.now, TOKEN, SECOND_SUBFLOW, Ended.FIN)]


def test_the_token_tells_whether_a_fast_close_has_the_listeners_key(adopted: Script) -> None:
    assert adopted.client(ACK, MpFastclose(CLIENT_KEY)) == []
    assert adopted.client(ACK, MpFastclose(LISTENER_KEY)) == [SessionClosed(adopted.now, TOKEN, Ended.FASTCLOSE)]
    assert adopted.count(Count.WRONG_KEY) == 1


def test_a_fast_close_of_the_listener_ends_an_adopted_session(adopted: Script) -> None:
    events = adopted.listener(RST, MpFastclose(CLIENT_KEY))
    assert events == [SessionClosed(adopted.now, TOKEN, Ended.FASTCLOSE)]


def test_an_address_that_is_announced_or_removed_tells_nothing(adopted: Script) -> None:
    options = AddAddr(False, 7, "10.0.3.2", None, bytes(8)), AddAddr(True, 1, "10.0.2.1"), RemoveAddr((3, 0))
    assert adopted.client(ACK, *options) == adopted.listener(ACK, *options) == []


def test_a_handshake_seen_after_its_subflow_was_adopted_gives_the_keys_and_tells_nothing(adopted: Script) -> None:
    adopted.now = START - 10
    assert adopted.open() == []
    assert adopted.join(proof=bytes(20)) == []
    assert adopted.count(Count.WRONG_HMAC) == 1


def test_adopting_what_is_known_changes_nothing(script: Script) -> None:
    script.open()
    assert script.tracker.import_existing(replace(ADOPTED, time=script.now)) == []
    assert script.join(proof=bytes(20)) == []


def test_adopting_says_what_had_to_make_room() -> None:
    script = Script(Limits(subflows=1))
    script.tracker.import_existing(ADOPTED)
    evicted = script.tracker.import_existing(replace(ADOPTED, time=START + 1, subflow=SECOND_SUBFLOW))
    assert evicted == [SubflowClosed(START + 1, TOKEN, FIRST, Ended.EVICTED)]


# Floods

SMALL = Limits(half_open=200, half_open_of_client=150, subflows=200, subflows_of_client=150, sessions=200)


def syns(script: Script, addresses: list[str], count: int) -> None:
    for number in range(count):
        source = FourTuple("10.0.1.1", 3128, addresses[number % len(addresses)], 1024 + number)
        script.ask(source)


def finish(script: Script, subflow: FourTuple = FIRST) -> list[Event]:
    script.answer(subflow)
    return script.prove(subflow)


@pytest.mark.parametrize("addresses", [["10.9.9.9"], ["10.9.9.9", "10.9.9.8"], ["fd00::1", "fd00::2", "fd00::3:0"]])
def test_a_flood_of_syns_spares_the_handshakes_of_others(addresses: list[str]) -> None:
    script = Script(SMALL)
    script.ask()
    syns(script, addresses, 2000)
    assert len(finish(script)) == 1


def test_a_flood_from_very_many_addresses_does_not_single_out_who_opens_two() -> None:
    script = Script(SMALL)
    other = replace(FIRST, remote_port=40009)
    script.ask()
    script.ask(other)
    syns(script, [f"10.9.{number}.9" for number in range(190)], 190)
    assert len(finish(script)) == 1
    assert script.count(Count.HALF_OPEN_EVICTED) == 0
    syns(script, [f"10.8.{number}.9" for number in range(5)], 5)
    assert len(finish(script, other)) == 2  # the token is the same, so that it replaces the first


def test_joins_from_forged_addresses_count_for_the_session_that_they_name() -> None:
    script = Script(SMALL)
    script.open()
    victim = FourTuple("10.0.1.1", 3128, "10.0.5.2", 5)
    key = bytes(8)
    script.open(subflow=victim, listener_key=key)
    script.ask_join()
    for number in range(2000):
        forged = FourTuple("10.0.1.1", 3128, f"10.{number % 250}.9.9", number)
        script.client(SYN, MpJoinSyn(False, 3, token(key), bytes(4)), subflow=forged)
    script.answer_join()
    assert len(script.prove_join()) == 1
    assert script.count(Count.HALF_OPEN_EVICTED) == 1850


def test_one_clients_subflows_drive_out_its_own() -> None:
    script = Script(SMALL)
    script.open()
    key = bytes(8)
    script.open(subflow=FourTuple("10.0.1.1", 3128, "10.0.5.2", 5), listener_key=key)
    other = token(key)
    for port in range(500):
        name = FourTuple("10.0.1.1", 3128, "10.0.5.2", 1000 + port)
        script.client(SYN, MpJoinSyn(False, 3, other, CLIENT_NONCE), subflow=name)
        proof = join_hmac(key, CLIENT_KEY, LISTENER_NONCE, CLIENT_NONCE)[:8]
        script.listener(SYN | ACK, MpJoinSynAck(False, 1, proof, LISTENER_NONCE), subflow=name)
        proof = join_hmac(CLIENT_KEY, key, CLIENT_NONCE, LISTENER_NONCE)
        events = script.client(ACK, MpJoinAck(proof), subflow=name)
        assert all(event.token == other for event in events)
    assert script.count(Count.SUBFLOWS_EVICTED) == 501 - 150


def test_one_clients_sessions_drive_out_its_own() -> None:
    script = Script(Limits(sessions=200, sessions_of_client=150))
    script.open()
    for number in range(500):
        subflow = FourTuple("10.0.1.1", 3128, "10.9.9.9", 1 + number)
        script.open(subflow=subflow, listener_key=number.to_bytes(8))
    assert script.count(Count.SESSIONS_EVICTED) == 350
    assert len(script.join()) == 1


OPERATIONS = st.tuples(st.sampled_from(["put", "pop", "expire"]), st.integers(0, 20), st.sampled_from("abc"))


@given(st.lists(OPERATIONS, max_size=200), st.integers(1, 8), st.integers(1, 8))
def test_a_table_stays_within_its_bounds_and_its_books_agree(
    operations: list[tuple[str, int, str]], capacity: int, share: int
) -> None:
    table: FairLru[int, str] = FairLru(capacity, share)
    for now, (what, key, owner) in enumerate(operations):
        match what:
            case "put":
                table.put(key, owner, now, owner)
            case "pop":
                table.pop(key)
            case _:
                table.expire(now - key)
        values = Counter(table.get(key) for key in table)
        assert len(table) <= capacity
        assert max(values.values(), default=0) == table._owners.most <= share
        assert all(table._owners.count(owner) == values[owner] for owner in "abc")
