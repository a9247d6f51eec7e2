from pathlib import Path

import pytest

from settings.units import PositiveRate
from throttler import dry_run
from throttler.policy import model as policy
from throttler.policy.model import Hold
from throttler.shaping import render
from throttler.shaping.plan import Ledger
from throttler.shaping.render import Leaf, Link
from throttler.wire.segments import FourTuple

POLICIES = Path(__file__).parents[3] / "tc-policies"


def hold(number: int, rate: str = "5mbit", token: int = 7) -> Hold:
    subflow = FourTuple("192.0.2.1", 3128, "198.51.100.2", number)
    return Hold(token, subflow, "wired", PositiveRate.parse(rate), "slow")


@pytest.mark.parametrize("file", sorted(POLICIES.glob("*.toml")), ids=lambda file: file.stem)
def test_the_dry_run_of_each_policy_is_its_golden_file(file: Path) -> None:
    # After a wanted change: throttler run --dry-run --policy tc-policies/X.toml > tc-policies/golden/X.txt
    golden = POLICIES / "golden" / f"{file.stem}.txt"
    assert dry_run.text(policy.read(file)) == golden.read_text()


def test_what_is_installed_and_wanted_needs_no_step() -> None:
    ledger = Ledger()
    ledger.commit(ledger.plan({7}, [hold(1)]))
    assert ledger.plan({7}, [hold(1)]).is_empty


def test_other_sessions_are_left_alone() -> None:
    ledger = Ledger()
    ledger.commit(ledger.plan({7, 8}, [hold(1), hold(2, token=8)]))
    plan = ledger.plan({7}, [])
    assert [placed.hold for placed in plan.remove] == [hold(1)]


def test_a_hold_with_another_rate_gets_another_class_in_one_transaction() -> None:
    ledger = Ledger()
    ledger.commit(ledger.plan({7}, [hold(1)]))
    plan = ledger.plan({7}, [hold(1, "1mbit")])
    assert [line.split(maxsplit=5)[:5] for line in render.elements(plan).splitlines()] == [
        ["delete", "element", "inet", "throttler", "subflows4"],
        ["delete", "element", "inet", "throttler", "classes"],
        ["add", "element", "inet", "throttler", "classes"],
        ["add", "element", "inet", "throttler", "subflows4"],
    ]
    assert plan.add[0].minor != plan.remove[0].minor


def test_when_no_class_is_free_holds_are_refused_until_one_is() -> None:
    ledger = Ledger(capacity=1)
    ledger.commit(ledger.plan({7}, [hold(1)]))
    plan = ledger.plan({8}, [hold(2, token=8)])
    assert plan.is_empty and plan.refused == (hold(2, token=8),)
    ledger.commit(plan)
    assert ledger.waiting == frozenset()
    ledger.commit(ledger.plan({7}, []))
    assert ledger.waiting == {8}
    ledger.commit(ledger.plan({8}, [hold(2, token=8)]))
    assert ledger.waiting == frozenset()


def test_a_session_that_ends_while_it_waits_is_forgotten() -> None:
    ledger = Ledger(capacity=1)
    ledger.commit(ledger.plan({7, 8}, [hold(1), hold(2, token=8)]))
    ledger.commit(ledger.plan({8}, []))
    ledger.commit(ledger.plan({7}, []))
    assert ledger.waiting == frozenset()


def test_a_thousand_holds_come_and_go_and_every_class_is_free_again() -> None:
    ledger = Ledger(capacity=10)
    for number in range(1000):
        ledger.commit(ledger.plan({7}, [hold(number)]))
    ledger.commit(ledger.plan({7}, []))
    assert list(ledger) == []
    plan = ledger.plan({7}, [hold(number) for number in range(10)])
    assert sorted(placed.minor for placed in plan.add) == list(range(1, 11))


@pytest.mark.parametrize(
    ("rate", "frame", "leaf", "text"),
    [
        ("5mbit", 1514, Leaf.FQ_CODEL, "fq_codel target 5000us"),
        ("1mbit", 1514, Leaf.FQ_CODEL, "fq_codel target 24224us"),
        ("5mbit", 1514, Leaf.TBF, "tbf rate 100000000000bit burst 3028b limit 7570b"),
        ("100mbit", 1514, Leaf.TBF, "tbf rate 100000000000bit burst 3028b limit 125000b"),
        ("5mbit", 9014, Leaf.TBF, "tbf rate 100000000000bit burst 18028b limit 45070b"),
    ],
)
def test_the_queue_fits_the_rate_and_the_frame(rate: str, frame: int, leaf: Leaf, text: str) -> None:
    lines = render.classes(Ledger().plan({7}, [hold(1, rate)]), {"wired": Link(leaf, frame)})
    assert lines.splitlines()[1] == f"qdisc add dev wired parent 5452:1 {text}"
