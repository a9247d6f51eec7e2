"""Verdicts on whether every byte was right."""

from experiments.scenarios.integrity import SCENARIO
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed, judged


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


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(SCENARIO, good) == []
    assert len(drawn(SCENARIO, good).axes[0].containers) == 3


def test_without_a_delay_the_kernels_fault_is_named_and_holds() -> None:
    rule = but(good, {"rtt": "0s"}, wrong=6, explained=6)
    assert failed(SCENARIO, rule) == []
    assert judged(SCENARIO, rule)[0].measured.startswith("18 of 3000 transfers wrong, 18 of them displaced")


def test_a_wrong_byte_of_another_kind_fails_without_a_delay_too() -> None:
    (claim,) = failed(SCENARIO, but(good, {"rtt": "0s"}, wrong=6, explained=5))
    assert claim.startswith("no byte is wrong but by the kernel's known fault")


def test_with_a_delay_the_kernels_fault_is_no_excuse() -> None:
    (claim,) = failed(SCENARIO, but(good, {"rtt": "100us"}, wrong=1, explained=1))
    assert claim == "every byte is right (round trip 100us)"


def test_transfers_that_do_not_end_fail_their_claim() -> None:
    assert failed(SCENARIO, but(good, {"rtt": "10ms"}, failed=1)) == ["every transfer ends (round trip 10ms)"]


def test_transfers_without_joins_say_nothing_of_joins() -> None:
    (claim,) = failed(SCENARIO, but(good, {"rtt": "10ms"}, joins=400))
    assert claim == "transfers have a second subflow (round trip 10ms)"
