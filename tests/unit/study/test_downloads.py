"""What is read off a download."""

import pytest

from experiments.record import Download, Sample, read_sending
from experiments.scenarios.downloads import values_of
from tests.refusals import command_error
from tests.unit.test_demo import download
from tributary.settings.errors import Exit

AGAIN = ("wired", "10.0.1.2:7000")


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


def test_what_senders_knew_is_told_by_subflow_and_of_this_download_alone() -> None:
    """Looks before the request and other sessions' subflows are none of it; a path joined anew is another one."""
    samples = [
        Sample(at, {("wired", "10.0.1.2:5000"): 1, ("wireless", "[fd00:0:0:2::2]:6000"): 1, AGAIN: 1}, {})
        for at in (0.1, 2.0)
    ]
    made = Download("mptcp", 100.0, 200, 3, "", samples)
    known = ["10.0.1.2", 5000, 10, 20.5, 0]
    lines = [
        [99.9, [known]],
        [100.1, [known, ["10.0.1.2", 9999, 1, 1.0, 1], ["fd00:0:0:2::2", 6000, 7, 40.0, 2]]],
        [101.0, [["10.0.1.2", 7000, 3, 21.0, 0]]],
        [103.0, [known]],
    ]
    assert read_sending(lines, made, lambda address: "wired" if address.startswith("10.0.1") else "wireless") == {
        "wired": [(0.1, 10, 20.5, 0)],
        "wireless": [(0.1, 7, 40.0, 2)],
        "wired-2": [(1.0, 3, 21.0, 0)],
    }


def test_an_answer_that_comes_all_at_once_has_its_rates() -> None:
    """Head and body in one piece: the only sample is the last one."""
    made = Download("native", 100.0, 200, 16_000, "", [Sample(0.128, {AGAIN: 16_000}, {"wired": 17_000})])
    values = values_of(made, warm_up=0)
    assert [values["mbps"], values["steady_mbps"]] == pytest.approx([1.0, 1.0])


def test_a_warm_up_that_takes_it_all_is_refused() -> None:
    with command_error(Exit.USAGE, "a larger size, or a shorter warm_up"):
        values_of(download("mptcp", 0.8, 8_000_000, 2_000_000), warm_up=1.0)
