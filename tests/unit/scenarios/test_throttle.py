"""Verdicts on downloads whose first path is held."""

from typing import Any

import pytest

from experiments.scenarios import throttle_again, throttle_first, throttle_long
from experiments.study.readings import Point
from experiments.study.scenario import Scenario
from tests.unit.scenarios.made_up import Rule, but, drawn, failed, topology

FIRST, AGAIN, LONG = throttle_first.SCENARIO, throttle_again.SCENARIO, throttle_long.SCENARIO


def good(scenario: Scenario[Any]) -> Rule:
    """What the links and the hold allow."""
    wired, wireless = (link.down.rate.amount / 1e6 for link in topology(scenario).links)
    held = scenario.options().rate.amount / 1e6

    def rule(point: Point) -> dict[str, float]:
        values = {"seconds": 5.0, "held_after_s": 1.0, "subflows": 2.0, "wired_before_mbps": wired}
        if point["by"] == "legacy":
            return values | {"mbps": 0.95 * wireless, "subflows": 1.0, "wireless_bytes": 200e6}
        if point["held"] == "never":
            return values | {"mbps": wired + wireless, "wired_after_mbps": wired, "wireless_bytes": 30e6}
        rates = {"mbps": 0.95 * (held + wireless), "wired_after_mbps": held, "wireless_after_mbps": wireless}
        return values | rates | {"wireless_bytes": 160e6}

    return rule


@pytest.mark.parametrize(("scenario", "panels"), [(FIRST, 2), (AGAIN, 2), (LONG, 3)])
def test_good_readings_hold_every_claim_and_can_be_drawn(scenario: Scenario[Any], panels: int) -> None:
    assert failed(scenario, good(scenario)) == []
    assert len(drawn(scenario, good(scenario)).axes) == panels


@pytest.mark.parametrize("scenario", [FIRST, AGAIN, LONG])
@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"wired_after_mbps": 5.3}, "wired is held to its rate, on the wire (native, ipv6)"),
        ({"subflows": 3.0}, "no subflow was lost or made anew (native, ipv6)"),
    ],
)
def test_a_hold_that_fails_is_seen(scenario: Scenario[Any], changed: dict[str, float], broken: str) -> None:
    held = "midway" if scenario is FIRST else "always"
    chosen = {"by": "native", "family": "ipv6", "held": held}
    assert failed(scenario, but(good(scenario), chosen, **changed)) == [broken]


@pytest.mark.parametrize("scenario", [FIRST, AGAIN])
def test_a_load_that_stays_on_the_held_path_is_seen(scenario: Scenario[Any]) -> None:
    rule = but(good(scenario), {"by": "native", "family": "ipv6"}, wireless_after_mbps=0.9)
    assert failed(scenario, rule) == ["the load moves: others carry more meanwhile, on the wire (native, ipv6)"]


def test_a_path_that_carried_nothing_before_proves_nothing() -> None:
    rule = but(good(FIRST), {"by": "squid", "family": "ipv4"}, wired_before_mbps=1.9)
    assert failed(FIRST, rule) == ["wired carried far more before (squid, ipv4)"]


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"wireless_after_mbps": 16.9}, "wireless is filled meanwhile, on the wire (squid, ipv4)"),
        ({"wireless_bytes": 29e6}, "wireless carries more of the file than unthrottled (squid, ipv4)"),
        ({"mbps": 18.9}, "the whole beats legacy TCP over wireless (squid, ipv4)"),
    ],
)
def test_a_load_that_does_not_move_is_seen(changed: dict[str, float], broken: str) -> None:
    chosen = {"by": "squid", "family": "ipv4", "held": "always"}
    assert failed(LONG, but(good(LONG), chosen, **changed)) == [broken]
