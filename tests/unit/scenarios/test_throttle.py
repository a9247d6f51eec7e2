"""Verdicts on downloads whose first path is held."""

from typing import Any

import pytest

from experiments.scenarios import throttle_again, throttle_first, throttle_long, throttle_midway
from experiments.scenarios.throttling import ThrottleOptions, policy_for
from experiments.study.readings import Point
from experiments.study.scenario import Scenario
from tests.unit.scenarios.made_up import Rule, but, differing, drawn, failed, topology

FIRST, AGAIN, LONG = throttle_first.SCENARIO, throttle_again.SCENARIO, throttle_long.SCENARIO
MIDWAY = throttle_midway.SCENARIO
HELD = {
    "throttle-first": "always",
    "throttle-again": "installed",
    "throttle-long": "always",
    "throttle-midway": "midway",
}


def good(scenario: Scenario[Any]) -> Rule:
    """What the links and the hold allow."""
    wired, wireless = (link.down.rate.amount / 1e6 for link in topology(scenario).links)
    held = scenario.options().rate.amount / 1e6

    def rule(point: Point) -> dict[str, float]:
        values = {"seconds": 5.0, "held_after_s": 1.0, "subflows": 2.0, "wired_before_mbps": wired}
        values |= {"joined_s": 0.9, "enforcement_ms": -20.0 if point["held"] == "installed" else 3.0}
        if point["by"] == "legacy":
            alone = wired if point["link"] == "wired" else wireless
            return values | {"mbps": 0.95 * alone, "subflows": 1.0, f"{point['link']}_bytes": 200e6}
        if point["held"] == "never":
            rates = {"wired_after_mbps": wired, "wireless_after_mbps": wireless}
            return values | rates | {"mbps": wired + wireless, "wireless_bytes": 30e6}
        rates = {"mbps": 0.95 * (held + wireless), "wired_after_mbps": held, "wireless_after_mbps": wireless}
        return values | rates | {"wireless_bytes": 160e6}

    return rule


@pytest.mark.parametrize(("scenario", "panels"), [(FIRST, 2), (AGAIN, 2), (MIDWAY, 2), (LONG, 4)])
def test_good_readings_hold_every_claim_and_can_be_drawn(scenario: Scenario[Any], panels: int) -> None:
    assert failed(scenario, good(scenario)) == []
    assert len(drawn(scenario, good(scenario)).axes) == panels


@pytest.mark.parametrize("scenario", [FIRST, AGAIN, MIDWAY, LONG])
@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"wired_after_mbps": 5.3}, "wired is held to its rate, on the wire (native, ipv6)"),
        ({"subflows": 3.0}, "no subflow was lost or made anew (native, ipv6)"),
    ],
)
def test_a_hold_that_fails_is_seen(scenario: Scenario[Any], changed: dict[str, float], broken: str) -> None:
    chosen = {"by": "native", "family": "ipv6", "held": HELD[scenario.name]}
    assert failed(scenario, but(good(scenario), chosen, **changed)) == [broken]


@pytest.mark.parametrize("scenario", [FIRST, AGAIN, MIDWAY])
def test_a_load_that_stays_on_the_held_path_is_seen(scenario: Scenario[Any]) -> None:
    rule = but(good(scenario), {"by": "native", "family": "ipv6"}, wireless_after_mbps=0.9)
    assert failed(scenario, rule) == ["the load moves: others carry more meanwhile, on the wire (native, ipv6)"]


def test_a_path_that_carried_nothing_before_proves_nothing() -> None:
    rule = but(good(MIDWAY), {"by": "squid", "family": "ipv4"}, wired_before_mbps=1.9)
    assert failed(MIDWAY, rule) == ["wired carried far more before (squid, ipv4)"]


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


def test_a_hold_that_comes_late_is_seen() -> None:
    rule = but(good(FIRST), {"by": "squid", "family": "ipv6"}, enforcement_ms=120.0)
    assert failed(FIRST, rule) == ["the hold comes by itself, soon after the join (squid, ipv6)"]


def test_an_installed_rule_that_waits_for_the_join_is_seen() -> None:
    rule = but(good(AGAIN), {"by": "native", "family": "ipv4"}, enforcement_ms=0.4)
    assert failed(AGAIN, rule) == ["the hold does not wait for the join (native, ipv4)"]


def test_only_a_rule_that_stands_before_the_session_takes_hold_of_its_first_subflow_alone() -> None:
    """The first download's rule waits for a second subflow, the next one's does not; an operator's is dry before."""
    links, options = topology(FIRST), ThrottleOptions()
    rules = {held: policy_for(links, "wired", options.rate, held) for held in HELD.values()}
    assert "min_subflows = 2\n" in rules["always"] and "dry_run = false" in rules["always"]
    assert "min_subflows = 1\n" in rules["installed"] and "dry_run = false" in rules["installed"]
    assert "dry_run = true" in rules["midway"]


def test_the_long_download_is_held_against_legacy_tcp_over_each_link() -> None:
    """Slower than legacy TCP over the link that nobody holds: that differs from the paper, for a reason given."""
    points = LONG.points(LONG.options(), topology(LONG))
    assert {point["link"] for point in points if point["by"] == "legacy"} == {"wired", "wireless"}
    claims = {claim.rpartition(" (")[0] for claim in differing(LONG, good(LONG))}
    assert claims == {
        "wireless is faster than without throttling, on the wire",
        "the whole is a little slower than without throttling",
        "the whole beats legacy TCP over wired",
    }
