"""Verdicts on a download that its relay leaves."""

import os
import subprocess

import pytest

from experiments.scenarios.overlay_leave import OverlayLeave, received, told
from experiments.study.readings import Point, Reading, Readings
from tests.unit.scenarios.made_up import but, claims_test, topology


def good(_point: Point) -> dict[str, float]:
    return {"kept": 0.98, "timers": 0.0}


test_claims = claims_test(
    OverlayLeave,
    good,
    (but(good, {"rtt": "20", "steps": "none"}, kept=0.5), "throughput comes back (20 ms, no steps)"),
    (but(good, {"rtt": "100", "steps": "10 ms"}, kept=0.5), "throughput comes back (100 ms, steps of 10 ms)"),
    (but(good, {"rtt": "100", "steps": "none"}, timers=1.0), "no timer ends (100 ms, no steps)"),
    (but(good, {"rtt": "20", "steps": "10 ms"}, timers=1.0), "no timer ends (20 ms, steps of 10 ms)"),
)


def test_far_away_a_timer_may_end_without_steps_alone() -> None:
    options = OverlayLeave.model_validate({"rtt": "300"})
    readings = [
        Reading(point, 1, {"kept": 0.98, "timers": 1.0}, {}) for point in options.points(topology(OverlayLeave))
    ]
    verdicts = options.judge(topology(OverlayLeave), Readings(readings))
    assert [verdict.claim for verdict in verdicts if not verdict.holds] == ["no timer ends (300 ms, steps of 10 ms)"]


def test_a_dip_is_the_time_below_half_of_what_came_before() -> None:
    """100 samples a second, 100 kB each; the relay leaves at 5 s, and for 0.3 s nothing comes."""
    samples = []
    sent = 0
    for number in range(1000):
        sent += 0 if 500 <= number < 530 else 100_000
        samples.append((number / 100, sent, 0.0))
    values = told(samples, 5.0)
    assert values["dip_ms"] == pytest.approx(300, abs=11)
    assert values["kept"] == pytest.approx(1)


def test_a_process_without_the_link_or_at_its_end_has_no_count() -> None:
    """None is not a count of 0, which would be a download that went back."""
    with subprocess.Popen(["true"]) as gone:
        os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
        assert [received(pid) for pid in (gone.pid, os.getpid())] == [None, None]
