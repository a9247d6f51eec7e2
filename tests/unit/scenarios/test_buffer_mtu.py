"""Verdicts on the buffer that is needed by packets of each size."""

from experiments.scenarios.buffer_mtu import BufferMtu
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import Rule, claims_test
from tributary.settings.units import Size


def needing(megabytes_at: dict[int, float]) -> Rule:
    """Half of the throughput below what is needed, all of it from there on."""

    def rule(point: Point) -> dict[str, float]:
        enough = Size.parse(point["buffer"]).amount / 1e6 >= megabytes_at[int(point["mtu"])]
        return {"seconds": 6.0, "steady_mbps": 60.0 if enough else 30.0}

    return rule


GOOD = {1500: 0.48, 1280: 0.48, 1000: 0.68, 576: 1.36}


test_claims = claims_test(
    BufferMtu,
    needing(GOOD),
    (needing(GOOD | {1000: 0.34}), "packets of 1000 bytes need no smaller buffer than those of 1500"),
    (
        needing(GOOD | {1280: 0.96}),
        "for packets of 1280 bytes a buffer in proportion to what they carry is enough",
    ),
    panels=2,
)
