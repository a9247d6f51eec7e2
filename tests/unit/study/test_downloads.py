"""What is read off a download."""

import pytest

from experiments.scenarios.downloads import values_of
from tests.unit.test_demo import download
from tributary.settings.failure import Exit, Failure


def test_rates_count_from_the_end_of_the_warm_up() -> None:
    values = values_of(download("mptcp", 4.0, 40_000_000, 10_000_000), warm_up=1.0)
    # Ten steady steps of 0.4 s: seven are behind the first one at or after 1 s.
    assert values == {
        "seconds": 4.0,
        "mbps": 100.0,
        "steady_mbps": pytest.approx(8 * 35_000_000 / 2.8 / 1e6),
        "subflows": 2.0,
        "wired_bytes": 40_000_000.0,
        "wireless_bytes": 10_000_000.0,
    }


def test_a_warm_up_that_takes_it_all_is_refused() -> None:
    with pytest.raises(Failure, match="a larger size, or a shorter warm_up") as failure:
        values_of(download("mptcp", 0.8, 8_000_000, 2_000_000), warm_up=1.0)
    assert failure.value.code == Exit.USAGE
