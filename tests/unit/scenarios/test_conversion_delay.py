"""Verdicts on the time that packets stay in a converter."""

from experiments.scenarios.conversion_delay import ConversionDelay
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test

KINDS = ("own_syn", "first_data", "data", "reply")


def good(point: Point) -> dict[str, float]:
    median = {"native": 90.0, "squid": 700.0}[point["by"]]
    shares = {"p50_us": median, "p95_us": 2 * median, "p99_us": 3 * median, "count": 500.0}
    return {f"{kind}_{share}": value for kind in KINDS for share, value in shares.items()}


IPV6 = {"family": "ipv6"}
test_claims = claims_test(
    ConversionDelay,
    good,
    (
        but(good, IPV6 | {"by": "squid"}, own_syn_p50_us=5100.0),
        "a SYN is converted in 5 ms, in the median (squid, ipv6)",
    ),
    (
        but(good, IPV6 | {"by": "native"}, data_p50_us=1100.0),
        "a request is converted in 1 ms, in the median (native, ipv6)",
    ),
    (
        but(good, IPV6 | {"by": "native"}, own_syn_p50_us=800.0),
        "the native converter takes no longer over a SYN than Squid (ipv6)",
    ),
    panels=1,
)
