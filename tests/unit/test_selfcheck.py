"""When a link is as described, by what was measured of it."""

import pytest

from experiments.testbed.selfcheck import Reading


@pytest.mark.parametrize(
    ("what", "described", "measured", "fits"),
    [
        ("down_mbps", 100, 95.1, True),
        ("down_mbps", 100, 94.9, False),
        ("up_mbps", 100, 105.1, False),
        ("up_mbps", 1, 0.5, False),
        ("rtt_ms", 40, 41.9, True),
        ("rtt_ms", 40, 42.1, False),
        ("rtt_ms", 40, 37.9, False),
        ("rtt_ms", 5, 5.9, True),
        ("rtt_ms", 5, 6.1, False),
        ("rtt_ms", 5, 3.9, False),
    ],
)
def test_a_reading_fits_within_five_percent_or_what_wake_ups_take(
    what: str, described: float, measured: float, fits: bool
) -> None:
    assert Reading("wired", what, described, measured).fits(0.05) == fits


def test_what_is_not_judged_fits() -> None:
    assert Reading("wired", "down_mbps_in_part", 100, 10, judged=False).fits(0.05)
