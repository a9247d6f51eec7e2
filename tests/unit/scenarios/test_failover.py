"""Verdicts on downloads while something happens to a link, and what is read off such a download."""

import pytest

from experiments.record import Download, Sample
from experiments.scenarios.failover import Failover, values_of
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import at, but, claims_test, failed


def good(point: Point) -> dict[str, float]:
    """A path that is back after 0.7 s, and after 2.2 s with the kernel's own settings."""
    times = {"seconds": 12.0, "begun_s": 2.0, "ended_s": 7.0, "gap_s": 0.5}
    back = 2.2 if point["settings"] == "kernel" else 0.7
    return times | {"mbps": 60.0, "dip_mbps": 15.0, "back_s": back, "whole": 1.0}


CUT = "event=cut,settings=kernel"
SOONER = "the appliance's kernel settings bring the path back sooner than the kernel's own (cut, native)"
test_claims = claims_test(
    Failover,
    good,
    at("event=flap,converter=squid", "every byte is right (flap, squid, ipv4, appliance)", whole=0),
    at(CUT, "every byte is right (cut, native, ipv4, kernel)", whole=0),
    at("event=cut,family=ipv6", "the gap is short (cut, native, ipv6, appliance)", gap_s=2.1),
    at(CUT, "the gap is short (cut, native, ipv4, kernel)", gap_s=2.1),
    at(
        "event=address-change,converter=native",
        "the path is back (address-change, native, ipv4, appliance)",
        back_s=2.1,
    ),
    at("event=half-dead,converter=squid", "the other link goes on (half-dead, squid, ipv4, appliance)", dip_mbps=6),
    at(CUT, SOONER, back_s=0.6),
    panels=5,
)


@pytest.mark.parametrize("event", ["cut", "flap", "half-dead", "address-change"])
def test_a_gap_is_held_against_cuts_alone(event: str) -> None:
    assert (failed(Failover, but(good, {"event": event}, gap_s=5)) != []) == (event == "cut")


def test_without_the_appliances_settings_a_path_may_take_its_time() -> None:
    assert failed(Failover, but(good, {"settings": "kernel"}, back_s=60, dip_mbps=0)) == []


def download(*states: tuple[float, int, int]) -> Download:
    """Samples of seconds, bytes by the path `wired`, and bytes of the body."""
    samples = [Sample(at, {("wired", "10.0.1.2:1"): wired}, {}, body) for at, wired, body in states]
    return Download("made up", 1000.0, 200, samples[-1].body, "", samples)


def test_gap_return_and_rate_are_read_off_the_samples() -> None:
    seen = download((0.5, 50, 60), (0.9, 90, 100), (1.4, 90, 200), (1.9, 90, 1100), (2.2, 90, 1200), (2.5, 95, 1300))
    values = values_of(seen, (1.0, 2.0), "wired")
    assert values["gap_s"] == pytest.approx(0.5)
    assert values["back_s"] == pytest.approx(0.5)
    assert values["dip_mbps"] == pytest.approx(8 * 1000 / 1e6)


def test_a_gap_before_the_event_does_not_count() -> None:
    seen = download((0.1, 1, 1), (0.9, 2, 2), (1.1, 3, 3), (1.2, 4, 4))
    assert values_of(seen, (1.0, 1.1), "wired")["gap_s"] == pytest.approx(0.2)


def test_a_path_that_never_comes_back_is_away_to_the_end() -> None:
    seen = download((0.5, 50, 60), (1.5, 50, 70), (6.0, 50, 80))
    assert values_of(seen, (1.0, 2.0), "wired")["back_s"] == pytest.approx(4.0)
