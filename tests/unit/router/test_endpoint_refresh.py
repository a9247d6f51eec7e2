from itertools import pairwise

import pytest

from router.links.endpoint_refresh import FIRST, LONGEST, EndpointRefresher

HERE, OTHER = "192.168.1.2", "10.64.0.2"
ONE, BOTH = frozenset({OTHER}), frozenset({HERE, OTHER})


@pytest.fixture
def repairs() -> EndpointRefresher:
    """With a session that has lost its subflow."""
    made = EndpointRefresher()
    made.on_subflow_lost(HERE, 7, 0.0)
    return made


def test_a_loss_is_mended_a_second_later() -> None:
    repairs = EndpointRefresher()
    repairs.on_subflow_lost(HERE, 7, 100.0)
    assert repairs.next_due == 100.0 + FIRST
    assert repairs.due({7: ONE}, 100.5) == []
    assert repairs.due({7: ONE}, 101.0) == [HERE]


def test_a_session_that_has_ended_or_has_joined_again_needs_nothing() -> None:
    repairs = EndpointRefresher()
    for token in (7, 8):
        repairs.on_subflow_lost(HERE, token, 100.0)
    assert repairs.due({8: BOTH}, 101.0) == []
    assert repairs.next_due is None


def test_the_time_between_two_repairs_doubles_up_to_a_bound(repairs: EndpointRefresher) -> None:
    times = []
    for _ in range(12):
        due = repairs.next_due
        assert due is not None
        assert repairs.due({7: ONE}, due) == [HERE]
        times.append(due)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST


def test_a_loss_right_after_a_repair_waits_its_turn_and_one_long_after_does_not(repairs: EndpointRefresher) -> None:
    for _ in range(3):
        repairs.due({7: ONE}, repairs.next_due or 0)
    at = repairs.next_due or 0
    assert repairs.due({7: BOTH}, at) == []
    repairs.on_subflow_lost(HERE, 8, at)
    assert repairs.next_due == at + FIRST
    repairs.due({8: ONE}, at + FIRST)
    assert (repairs.next_due or 0) - (at + FIRST) == 8.0
    repairs.due({8: BOTH}, repairs.next_due or 0)
    repairs.on_subflow_lost(HERE, 9, at + 1000)
    repairs.due({9: ONE}, at + 1000 + FIRST)
    assert repairs.next_due == at + 1000 + 2 * FIRST


def test_no_repair_breaks_more_sessions_than_it_mends(repairs: EndpointRefresher) -> None:
    assert repairs.due({7: ONE, 8: BOTH, 9: BOTH}, 1.0) == []
    assert repairs.next_due == 2.0
    assert repairs.due({7: ONE, 8: BOTH}, 2.0) == [HERE]


def test_a_decision_that_cannot_be_taken_is_put_off(repairs: EndpointRefresher) -> None:
    repairs.postpone(1.0)
    assert repairs.due({7: ONE}, 1.5) == []
    assert repairs.due({7: ONE}, 2.0) == [HERE]


def test_a_loss_is_forgotten_with_its_endpoint(repairs: EndpointRefresher) -> None:
    repairs.remove(HERE)
    assert repairs.next_due is None
    assert repairs.due({7: ONE}, 5.0) == []
