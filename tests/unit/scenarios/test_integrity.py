"""Verdicts on whether every byte was right."""

from experiments.scenarios.integrity import Integrity
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, drawn, failed, judged


def good(_point: Point) -> dict[str, float]:
    return {
        "transfers": 1000,
        "failed": 0,
        "wrong": 0,
        "explained": 0,
        "waits": 2,
        "joins": 990,
        "dss_not_matching_gateway": 0,
    }


def test_each_kind_of_fault_has_its_bars() -> None:
    assert len(drawn(Integrity, good).axes[0].containers) == 3


test_claims = claims_test(
    Integrity,
    good,
    # Of another kind than the kernel's known fault; and with a delay that one is no excuse.
    (
        but(good, {"rtt": "0s"}, wrong=6, explained=5),
        "no byte is wrong but by the kernel's known fault of joins (round trip 0s)",
    ),
    (but(good, {"rtt": "100us"}, wrong=1, explained=1), "every byte is right (round trip 100us)"),
    (but(good, {"rtt": "10ms"}, failed=1), "every transfer ends (round trip 10ms)"),
    # Without joins it would say nothing of joins.
    (but(good, {"rtt": "10ms"}, joins=400), "transfers have a second subflow (round trip 10ms)"),
    panels=1,
)


def test_without_a_delay_the_kernels_fault_is_named_and_holds() -> None:
    rule = but(good, {"rtt": "0s"}, wrong=6, explained=6)
    assert failed(Integrity, rule) == []
    assert judged(Integrity, rule)[0].measured.startswith("18 of 3000 transfers wrong, 18 of them displaced")
