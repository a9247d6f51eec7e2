from dataclasses import replace

import pytest

from throttler.policy.decide import Assignment, ClassRates, Owner
from throttler.policy.model import PER_CLIENT
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.plan import GRACE, ClassTable, Element, Plan
from tributary.mptcp.four_tuple import FourTuple

SLOW = ClassRates(5_000_000, 5_000_000, 3)


def assignment(
    number: int, client: str = "198.51.100.2", shared_by: SharedBy = SharedBy.SUBFLOW, rates: ClassRates = SLOW
) -> Assignment:
    subflow = FourTuple("192.0.2.1", 3128, client, number)
    key = {SharedBy.SUBFLOW: str(subflow), SharedBy.CLIENT: client, SharedBy.RULE: "slow"}[shared_by]
    return Assignment(subflow, "wired", Direction.DOWNLOAD, Owner("slow", shared_by, key), rates)


def minors(elements: tuple[Element, ...]) -> list[int]:
    return [element.htb.minor for element in elements]


@pytest.fixture
def table() -> ClassTable:
    return ClassTable()


def test_what_is_installed_and_wanted_needs_no_step_and_other_sessions_are_left_alone(table: ClassTable) -> None:
    table.step({7: [assignment(1)]}, 0)
    assert table.step({7: [assignment(1)]}, 0).is_empty
    table.step({7: [assignment(1)], 8: [assignment(2)]}, 0)
    plan = table.step({7: []}, 0)
    assert [element.subflow for element in plan.remove] == [assignment(1).subflow]
    assert [subflow for _, subflow in table.class_keys[8]] == [assignment(2).subflow]


def test_another_rate_changes_the_class_and_moves_no_element(table: ClassTable) -> None:
    opened = table.step({7: [assignment(1)]}, 0).open
    slower = ClassRates(1_000_000, 1_000_000, 3)
    plan = table.step({7: [assignment(1, rates=slower)]}, 0)
    assert plan == Plan(change=(replace(opened[0], rates=slower),))


def test_another_rule_moves_the_element_to_another_class_in_one_step(table: ClassTable) -> None:
    table.step({7: [assignment(1)]}, 0)
    plan = table.step({7: [replace(assignment(1), owner=Owner("other", SharedBy.SUBFLOW, "x"))]}, 0)
    assert (minors(plan.remove), minors(plan.add)) == ([1], [2])
    assert [htb.minor for htb in plan.drain] == [1]


def test_a_client_shares_one_class_that_goes_with_its_last_subflow(table: ClassTable) -> None:
    plan = table.step({7: [assignment(1, shared_by=SharedBy.CLIENT)], 8: [assignment(2, shared_by=SharedBy.CLIENT)]}, 0)
    assert len(plan.open) == 1 and minors(plan.add) == [1, 1]
    assert table.step({7: []}, 0).drain == ()
    assert [htb.minor for htb in table.step({8: []}, 0).drain] == [1]


def test_a_class_is_closed_a_grace_after_its_last_element_left(table: ClassTable) -> None:
    table.step({7: [assignment(1)]}, 0)
    (drained,) = table.step({7: []}, 5).drain
    assert table.next_close == 5 + GRACE
    assert table.step({}, 4 + GRACE).is_empty
    assert table.step({}, 5 + GRACE) == Plan(close=(drained,))
    assert table.next_close is None


def test_a_client_with_many_subflows_has_the_rest_of_them_in_one_class(table: ClassTable) -> None:
    plan = table.step({7: [assignment(number) for number in range(PER_CLIENT + 10)]}, 0)
    assert len(plan.open) == PER_CLIENT + 1
    assert len(set(minors(plan.add)[PER_CLIENT:])) == 1
    assert table.shared == 10
    other = table.step({8: [assignment(1, client="198.51.100.3")]}, 0)
    assert len(other.open) == 1 and table.shared == 10


def test_when_classes_run_out_subflows_share_that_of_their_rule() -> None:
    table = ClassTable(capacity=5, reserved=2)
    plan = table.step({number: [assignment(1, client=f"198.51.100.{number}")] for number in range(10)}, 0)
    assert len(plan.open) == 4
    assert plan.open[-1].key.owner == Owner("slow", SharedBy.RULE, "slow")
    assert minors(plan.add)[3:] == [4] * 7
    assert table.refused == 0


def test_when_not_even_the_rule_finds_a_class_the_limit_is_refused_and_counted() -> None:
    table = ClassTable(capacity=1, reserved=0)
    table.step({7: [assignment(1)]}, 0)
    assert table.step({8: [assignment(2, client="198.51.100.3")]}, 0).is_empty
    assert table.refused == 1


def test_a_thousand_assignments_come_and_go_and_every_class_is_free_again() -> None:
    table = ClassTable(capacity=10, reserved=0)
    for number in range(1000):
        table.step({7: [assignment(number)]}, number * GRACE)
    table.step({7: []}, 1000 * GRACE)
    table.step({}, 1002 * GRACE)
    assert (len(table), table.elements, table.classes, table.class_keys) == (0, 0, {}, {})
    plan = table.step({7: [assignment(1), assignment(2)]}, 1003 * GRACE)
    assert len(plan.open) == 2 and table.refused == 0


def test_beyond_a_maps_size_a_subflow_is_left_free_and_counted_until_there_is_room() -> None:
    """One element more than a map takes would make nft refuse the whole step, again and again."""
    table = ClassTable(map_size=2)
    plan = table.step({token: [assignment(token)] for token in (1, 2, 3)}, 0)
    assert (minors(plan.add), len(plan.open), table.unmapped, table.elements) == ([1, 2], 2, 1, 2)
    # The other map has its own room, and a subflow that changes its class takes no more.
    upload = replace(assignment(3), direction=Direction.UPLOAD)
    assert len(table.step({3: [upload]}, 0).add) == 1
    assert len(table.step({1: [assignment(1, shared_by=SharedBy.CLIENT)]}, 0).add) == 1
    table.step({2: []}, 0)
    assert len(table.step({4: [assignment(4)]}, 0).add) == 1


def test_one_client_may_have_as_many_classes_as_the_policy_says() -> None:
    table = ClassTable(per_client=3)
    table.step({token: [assignment(token)] for token in range(5)}, 0)
    assert (len(table), table.shared) == (4, 2)
    table.per_client = 10
    table.step({token: [assignment(token)] for token in range(5, 10)}, 0)
    assert len(table) == 9


def test_the_sessions_of_an_owner_are_known_until_they_leave(table: ClassTable) -> None:
    by_client = assignment(1, shared_by=SharedBy.CLIENT)
    table.step({7: [by_client], 8: [assignment(2, shared_by=SharedBy.CLIENT)], 9: [assignment(3)]}, 0)
    assert set(table.sharers(by_client.owner)) == {7, 8}
    table.step({7: []}, 0)
    assert set(table.sharers(by_client.owner)) == {8}
    table.step({8: []}, 0)
    assert not table.sharers(by_client.owner)


def test_classes_that_went_with_their_interface_neither_drain_nor_are_closed() -> None:
    table = ClassTable(capacity=3, reserved=0)
    table.step({1: [assignment(1)], 2: [assignment(2)]}, 0)
    drained = table.step({1: []}, 0).drain
    table.set_absent(frozenset({assignment(1).interface}))
    plan = table.step({2: []}, 0)
    assert (plan.lost[:1], len(plan.lost), plan.close) == (drained, 2, ())
    assert table.next_close is None and table.step({}, GRACE).close == ()
    # Their numbers are free again.
    table.set_absent(frozenset())
    assert len(table.step({token: [assignment(token)] for token in (4, 5, 6)}, 0).open) == 3
