"""When an endpoint is made anew for sessions that have lost their subflow."""

from itertools import pairwise

from router.repairs import FIRST, LONGEST, Repairs

HERE, OTHER = "192.168.1.2", "10.64.0.2"
ONE, BOTH = frozenset({OTHER}), frozenset({HERE, OTHER})


def test_a_loss_is_mended_a_second_later() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 100.0)
    assert repairs.next_due == 100.0 + FIRST
    assert repairs.decide({7: ONE}, 100.5) == []
    assert repairs.decide({7: ONE}, 101.0) == [HERE]


def test_a_session_that_has_ended_or_has_joined_again_needs_nothing() -> None:
    repairs = Repairs()
    for token in (7, 8):
        repairs.lost(HERE, token, 100.0)
    assert repairs.decide({8: BOTH}, 101.0) == []
    assert repairs.next_due is None


def test_the_time_between_two_repairs_doubles_up_to_a_bound() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 0.0)
    times = []
    for _ in range(12):
        due = repairs.next_due
        assert due is not None
        assert repairs.decide({7: ONE}, due) == [HERE]
        times.append(due)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST


def test_a_loss_right_after_a_repair_waits_its_turn_and_one_long_after_does_not() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 0.0)
    for _ in range(3):
        repairs.decide({7: ONE}, repairs.next_due or 0)
    at = repairs.next_due or 0
    assert repairs.decide({7: BOTH}, at) == []
    repairs.lost(HERE, 8, at)
    assert repairs.next_due == at + FIRST
    repairs.decide({8: ONE}, at + FIRST)
    assert (repairs.next_due or 0) - (at + FIRST) == 8.0
    repairs.decide({8: BOTH}, repairs.next_due or 0)
    repairs.lost(HERE, 9, at + 1000)
    repairs.decide({9: ONE}, at + 1000 + FIRST)
    assert repairs.next_due == at + 1000 + 2 * FIRST


def test_no_repair_breaks_more_sessions_than_it_mends() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 0.0)
    assert repairs.decide({7: ONE, 8: BOTH, 9: BOTH}, 1.0) == []
    assert repairs.next_due == 2.0
    assert repairs.decide({7: ONE, 8: BOTH}, 2.0) == [HERE]


def test_a_decision_that_cannot_be_taken_is_put_off() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 0.0)
    repairs.postpone(1.0)
    assert repairs.decide({7: ONE}, 1.5) == []
    assert repairs.decide({7: ONE}, 2.0) == [HERE]


def test_a_loss_is_forgotten_with_its_endpoint() -> None:
    repairs = Repairs()
    repairs.lost(HERE, 7, 0.0)
    repairs.forget(HERE)
    assert repairs.next_due is None
    assert repairs.decide({7: ONE}, 5.0) == []
