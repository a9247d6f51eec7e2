"""Verdicts on MPTCP over both links."""

from experiments.scenarios.multipath import Multipath
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test, differing


def good(point: Point) -> dict[str, float]:
    """What 100 and 20 Mbit/s give: 95 and 19 alone, 112 together."""
    if point["by"] != "legacy":
        return {"seconds": 3.6, "mbps": 110, "steady_mbps": 112, "wired_bytes": 42e6, "wireless_bytes": 8e6}
    mbps = {"wired": 95.0, "wireless": 19.0}[point["link"]]
    return {"seconds": 400 / mbps, "mbps": mbps, "steady_mbps": mbps, f"{point['link']}_bytes": 50e6}


def test_a_second_link_that_is_full_differs_from_the_paper_and_fails_nothing() -> None:
    idle = "the slower one is hardly used"
    assert {claim.partition(" (")[0] for claim in differing(Multipath, good)} == {idle}
    unused = but(good, {}, wireless_bytes=1e6)
    assert not any(claim.startswith(idle) for claim in differing(Multipath, lambda point: dict(unused(point))))


test_claims = claims_test(
    Multipath,
    good,
    (
        but(good, {"by": "squid", "family": "ipv4"}, steady_mbps=100),
        "they reach 90 % of the paths' sum (squid, ipv4)",
    ),
    (
        but(good, {"by": "native", "family": "ipv6"}, steady_mbps=94),
        "both paths together beat the best one (native, ipv6)",
        "they reach 90 % of the paths' sum (native, ipv6)",
    ),
    (
        but(good, {"by": "native", "family": "ipv4"}, wired_bytes=24e6, wireless_bytes=26e6),
        "the better path carries most (native, ipv4)",
    ),
    panels=2,
)
