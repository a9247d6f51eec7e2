"""The ledger: what is wanted against what is there."""

from dataclasses import replace

from throttler.policy.decide import Hold, Owner, Shape
from throttler.policy.model import PER_CLIENT
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.plan import GRACE, Element, Ledger, Plan
from tributary.mptcp.four_tuple import FourTuple

SLOW = Shape(5_000_000, 5_000_000, 3)


def hold(
    number: int, client: str = "198.51.100.2", shared_by: SharedBy = SharedBy.SUBFLOW, shape: Shape = SLOW
) -> Hold:
    subflow = FourTuple("192.0.2.1", 3128, client, number)
    key = {SharedBy.SUBFLOW: str(subflow), SharedBy.CLIENT: client, SharedBy.RULE: "slow"}[shared_by]
    return Hold(subflow, "wired", Direction.DOWNLOAD, Owner("slow", shared_by, key), shape)


def minors(elements: tuple[Element, ...]) -> list[int]:
    return [element.placed.minor for element in elements]


def test_what_is_installed_and_wanted_needs_no_step() -> None:
    ledger = Ledger()
    ledger.step({7: [hold(1)]}, 0)
    assert ledger.step({7: [hold(1)]}, 0).is_empty


def test_other_sessions_are_left_alone() -> None:
    ledger = Ledger()
    ledger.step({7: [hold(1)], 8: [hold(2)]}, 0)
    plan = ledger.step({7: []}, 0)
    assert [element.subflow for element in plan.leave] == [hold(1).subflow]
    assert [subflow for _, subflow in ledger.held[8]] == [hold(2).subflow]


def test_another_rate_changes_the_class_and_moves_no_element() -> None:
    ledger = Ledger()
    opened = ledger.step({7: [hold(1)]}, 0).open
    slower = Shape(1_000_000, 1_000_000, 3)
    plan = ledger.step({7: [hold(1, shape=slower)]}, 0)
    assert plan == Plan(change=(replace(opened[0], shape=slower),))


def test_another_rule_moves_the_element_to_another_class_in_one_step() -> None:
    ledger = Ledger()
    ledger.step({7: [hold(1)]}, 0)
    plan = ledger.step({7: [replace(hold(1), owner=Owner("other", SharedBy.SUBFLOW, "x"))]}, 0)
    assert (minors(plan.leave), minors(plan.enter)) == ([1], [2])
    assert [placed.minor for placed in plan.drain] == [1]


def test_a_client_shares_one_class_that_goes_with_its_last_subflow() -> None:
    ledger = Ledger()
    plan = ledger.step({7: [hold(1, shared_by=SharedBy.CLIENT)], 8: [hold(2, shared_by=SharedBy.CLIENT)]}, 0)
    assert len(plan.open) == 1 and minors(plan.enter) == [1, 1]
    assert ledger.step({7: []}, 0).drain == ()
    assert [placed.minor for placed in ledger.step({8: []}, 0).drain] == [1]


def test_a_class_is_closed_a_grace_after_its_last_element_left() -> None:
    ledger = Ledger()
    ledger.step({7: [hold(1)]}, 0)
    (drained,) = ledger.step({7: []}, 5).drain
    assert ledger.next_close == 5 + GRACE
    assert ledger.step({}, 4 + GRACE).is_empty
    assert ledger.step({}, 5 + GRACE) == Plan(close=(drained,))
    assert ledger.next_close is None


def test_a_client_with_many_subflows_has_the_rest_of_them_in_one_class() -> None:
    ledger = Ledger()
    plan = ledger.step({7: [hold(number) for number in range(PER_CLIENT + 10)]}, 0)
    assert len(plan.open) == PER_CLIENT + 1
    assert len(set(minors(plan.enter)[PER_CLIENT:])) == 1
    assert ledger.shared == 10
    other = ledger.step({8: [hold(1, client="198.51.100.3")]}, 0)
    assert len(other.open) == 1 and ledger.shared == 10


def test_when_classes_run_out_subflows_share_that_of_their_rule() -> None:
    ledger = Ledger(capacity=5, reserved=2)
    plan = ledger.step({number: [hold(1, client=f"198.51.100.{number}")] for number in range(10)}, 0)
    assert len(plan.open) == 4
    assert plan.open[-1].place.owner == Owner("slow", SharedBy.RULE, "slow")
    assert minors(plan.enter)[3:] == [4] * 7
    assert ledger.refused == 0


def test_when_not_even_the_rule_finds_a_class_the_hold_is_refused_and_counted() -> None:
    ledger = Ledger(capacity=1, reserved=0)
    ledger.step({7: [hold(1)]}, 0)
    assert ledger.step({8: [hold(2, client="198.51.100.3")]}, 0).is_empty
    assert ledger.refused == 1


def test_a_thousand_holds_come_and_go_and_every_class_is_free_again() -> None:
    ledger = Ledger(capacity=10, reserved=0)
    for number in range(1000):
        ledger.step({7: [hold(number)]}, number * GRACE)
    ledger.step({7: []}, 1000 * GRACE)
    ledger.step({}, 1002 * GRACE)
    assert (len(ledger), ledger.elements, ledger.classes, ledger.held) == (0, 0, {}, {})
    plan = ledger.step({7: [hold(1), hold(2)]}, 1003 * GRACE)
    assert len(plan.open) == 2 and ledger.refused == 0


def test_beyond_a_maps_size_a_subflow_is_left_free_and_counted_until_there_is_room() -> None:
    """One element more than a map takes would make nft refuse the whole step, again and again."""
    ledger = Ledger(map_size=2)
    plan = ledger.step({token: [hold(token)] for token in (1, 2, 3)}, 0)
    assert (minors(plan.enter), len(plan.open), ledger.unmapped, ledger.elements) == ([1, 2], 2, 1, 2)
    # The other map has its own room, and a subflow that changes its class takes no more.
    upload = replace(hold(3), direction=Direction.UPLOAD)
    assert len(ledger.step({3: [upload]}, 0).enter) == 1
    assert len(ledger.step({1: [hold(1, shared_by=SharedBy.CLIENT)]}, 0).enter) == 1
    ledger.step({2: []}, 0)
    assert len(ledger.step({4: [hold(4)]}, 0).enter) == 1


def test_one_client_may_have_as_many_classes_as_the_policy_says() -> None:
    ledger = Ledger(per_client=3)
    ledger.step({token: [hold(token)] for token in range(5)}, 0)
    assert (len(ledger), ledger.shared) == (4, 2)
    ledger.per_client = 10
    ledger.step({token: [hold(token)] for token in range(5, 10)}, 0)
    assert len(ledger) == 9


def test_the_sessions_of_an_owner_are_known_until_they_leave() -> None:
    ledger = Ledger()
    by_client = hold(1, shared_by=SharedBy.CLIENT)
    ledger.step({7: [by_client], 8: [hold(2, shared_by=SharedBy.CLIENT)], 9: [hold(3)]}, 0)
    assert set(ledger.sharers(by_client.owner)) == {7, 8}
    ledger.step({7: []}, 0)
    assert set(ledger.sharers(by_client.owner)) == {8}
    ledger.step({8: []}, 0)
    assert not ledger.sharers(by_client.owner)


def test_classes_that_went_with_their_interface_neither_drain_nor_are_closed() -> None:
    ledger = Ledger(capacity=3, reserved=0)
    ledger.step({1: [hold(1)], 2: [hold(2)]}, 0)
    drained = ledger.step({1: []}, 0).drain
    ledger.lose(frozenset({hold(1).interface}))
    plan = ledger.step({2: []}, 0)
    assert (plan.lost[:1], len(plan.lost), plan.close) == (drained, 2, ())
    assert ledger.next_close is None and ledger.step({}, GRACE).close == ()
    # Their numbers are free again.
    ledger.lose(frozenset())
    assert len(ledger.step({token: [hold(token)] for token in (4, 5, 6)}, 0).open) == 3
