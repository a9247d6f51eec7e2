"""Verdicts on downloads whose first path is held."""

import tomllib

from experiments.scenarios.throttle_again import ThrottleAgain
from experiments.scenarios.throttle_first import ThrottleFirst
from experiments.scenarios.throttle_long import ThrottleLong
from experiments.scenarios.throttle_midway import ThrottleMidway
from experiments.scenarios.throttling import ThrottleExperiment, policy_for
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import Broken, Rule, at, claims_test, differing, topology

HELD = {
    "throttle-first": "always",
    "throttle-again": "installed",
    "throttle-long": "always",
    "throttle-midway": "midway",
}


def good(experiment: type[ThrottleExperiment]) -> Rule:
    """What the links and the hold allow."""
    wired, wireless = (link.down.rate.amount / 1e6 for link in topology(experiment).links)
    held = experiment().rate.amount / 1e6

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


def claims(experiment: type[ThrottleExperiment], *own: Broken, panels: int = 2) -> object:
    """A test of what each hold claims, and of its ``own`` claims."""
    native = f"by=native,family=ipv6,held={HELD[experiment.name]}"
    return claims_test(
        experiment,
        good(experiment),
        at(native, "wired is held to its rate, on the wire (native, ipv6)", wired_after_mbps=5.3),
        at(native, "no subflow was lost or made anew (native, ipv6)", subflows=3.0),
        *own,
        panels=panels,
    )


MOVES = "the load moves: others carry more meanwhile, on the wire (native, ipv6)"
STAYS = at("by=native,family=ipv6", MOVES, wireless_after_mbps=0.9)
SQUID = "by=squid,family=ipv4"
LATE = "the hold comes by itself, soon after the join (squid, ipv4)"
test_first = claims(ThrottleFirst, STAYS, at(SQUID, LATE, enforcement_ms=120.0))
WAITS = "the hold does not wait for the join (squid, ipv4)"
test_again = claims(ThrottleAgain, STAYS, at(SQUID, WAITS, enforcement_ms=0.4))
BEFORE = "wired carried far more before (squid, ipv4)"
test_midway = claims(ThrottleMidway, STAYS, at(SQUID, BEFORE, wired_before_mbps=1.9))
ALWAYS = f"{SQUID},held=always"
test_long = claims(
    ThrottleLong,
    at(ALWAYS, "wireless is filled meanwhile, on the wire (squid, ipv4)", wireless_after_mbps=16.9),
    at(ALWAYS, "wireless carries more of the file than unthrottled (squid, ipv4)", wireless_bytes=29e6),
    at(ALWAYS, "the whole beats legacy TCP over wireless (squid, ipv4)", mbps=18.9),
    panels=4,
)


def test_only_a_rule_that_stands_before_the_session_takes_hold_of_its_first_subflow_alone() -> None:
    """The first download's rule waits for a second subflow, the next one's does not; an operator's is dry before."""
    links = topology(ThrottleFirst)
    policies = {held: policy_for(links, "wired", ThrottleFirst().rate, held) for held in HELD.values()}
    rules = {held: tomllib.loads(policy)["rules"][0] for held, policy in policies.items()}
    assert rules["always"]["min_subflows"] == 2 and not rules["always"]["dry_run"]
    assert rules["installed"]["min_subflows"] == 1 and not rules["installed"]["dry_run"]
    assert rules["midway"]["dry_run"]


def test_the_long_download_is_held_against_legacy_tcp_over_each_link() -> None:
    """Slower than legacy TCP over the link that nobody holds: that differs from the paper, for a reason given."""
    points = ThrottleLong().points(topology(ThrottleLong))
    assert {point["link"] for point in points if point["by"] == "legacy"} == {"wired", "wireless"}
    claims = {claim.rpartition(" (")[0] for claim in differing(ThrottleLong, good(ThrottleLong))}
    assert claims == {
        "wireless is faster than without throttling, on the wire",
        "the whole is a little slower than without throttling",
        "the whole beats legacy TCP over wired",
    }
