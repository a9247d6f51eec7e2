"""What the experiments with a request hand-off claim, of readings that no machine gave."""

from collections.abc import Mapping

import pytest

from experiments.scenarios import handoff_backends, handoff_faults
from experiments.scenarios.handoff_backends import HandoffBackends
from experiments.scenarios.handoff_faults import HandoffFaults
from experiments.scenarios.handoff_scale import HandoffScale
from experiments.scenarios.handoff_sizes import HandoffSizes
from experiments.study.experiment import Experiment
from experiments.study.readings import Point
from experiments.testbed.topology import Profile
from tests.unit.scenarios.made_up import but, claims_test, drawn, failed, judged, topology
from tributary.settings.files import load


def sizes(point: Point, cost: float = 30_000) -> Mapping[str, float]:
    """A hand-over costs as much as so many bytes take."""
    if "size" not in point:
        return {}
    size = int(point["size"])
    share = {"handoff": 2 * size / (size + cost), "direct": 2}.get(point["by"], 1)
    return {"mbps": 950 * share, "front_cpu_ms_per_gb": 100}


def test_a_hand_off_that_costs_little_gives_twice_what_a_proxy_does() -> None:
    experiment = HandoffSizes
    assert failed(experiment, sizes) == []
    # By two proxies from 256 kB on, and directly from 2 MB on.
    assert len(judged(experiment, sizes)) == 2 * 6 + 3
    assert len(drawn(experiment, sizes).axes) == 2


def test_one_that_costs_much_is_seen_at_small_sizes() -> None:
    claims = failed(HandoffSizes, lambda point: sizes(point, cost=300_000))
    assert "clients get more by hand-off than by nginx at 256 kB" in claims
    assert "and nearly what they get directly at 2000 kB" in claims
    assert not any("64000 kB" in claim for claim in claims)


def test_a_proxy_that_is_not_here_is_no_claim() -> None:
    def rule(point: Point) -> Mapping[str, float]:
        return {} if point["by"] == "nginx" else sizes(point)

    assert failed(HandoffSizes, rule) == []
    assert not any("nginx" in verdict.claim for verdict in judged(HandoffSizes, rule))
    drawn(HandoffSizes, rule)


def backends(point: Point) -> Mapping[str, float]:
    ours = point["by"] == "handoff"
    longer = 300 if ours and point["next"] == "another" else 0
    return {"request_us": 2500 + longer, "front_percent": 1 if ours else 105}


OURS = {"by": "handoff", "next": "another"}
test_claims_on_back_ends = claims_test(
    HandoffBackends,
    backends,
    (but(backends, OURS, request_us=4000), "another back end costs a request less than a millisecond"),
    (but(backends, OURS, front_percent=100), "no answer passes the front"),
    panels=1,
)


def test_each_back_end_has_its_bar_by_each_contender() -> None:
    assert len(drawn(HandoffBackends, backends).axes[0].patches) == 6


def test_the_first_request_of_a_connection_is_not_counted() -> None:
    told = handoff_backends.told([[9000, 2000, 2200], [8000, 2400, 2600]], passed=60, size=100)
    assert told == {"request_us": 2300, "front_percent": 10}


def scale(point: Point, most: float = 8) -> Mapping[str, float]:
    number = int(point["back_ends"])
    links = 1 if point["by"] in ("nginx", "haproxy") else min(number, most)
    return {"mbps": 190 * links, "front_cpu_percent": 2 * links, "front_percent": 1}


test_claims_on_scale = claims_test(
    HandoffScale,
    scale,
    (lambda point: scale(point, most=5), "8 back ends give nearly 8 times what one gives"),
    (but(scale, {"by": "handoff"}, front_percent=100), "the front's link idles"),
    panels=2,
)


def faults(point: Point, reset: float = 0.7, wrong: float = 0, whole: float = 1) -> Mapping[str, float]:
    fault = point["fault"]
    if fault == "client-gone":
        return {"given_up_s": 30, "wrong": wrong}
    lost = fault.startswith("back-end")
    outcome = {"reset": float(lost), "whole": float(not lost) * whole}
    return outcome | {"seconds": reset if lost else 6, "pause_s": 0.5, "wrong": wrong}


def test_what_fails_costs_a_reset_soon_or_a_pause() -> None:
    experiment = HandoffFaults
    assert failed(experiment, faults) == []
    late = ["and soon (back-end-killed)", "and soon (back-end-cut-off)"]
    assert failed(experiment, lambda point: faults(point, reset=1.1)) == late[:1]
    assert failed(experiment, lambda point: faults(point, reset=6.1)) == late
    assert len(failed(experiment, lambda point: faults(point, wrong=1))) == 5
    assert len(failed(experiment, lambda point: faults(point, whole=0))) == 2
    assert len(drawn(experiment, faults).axes) == 1


def test_what_a_client_saw_is_told_by_when_the_fault_began() -> None:
    seen = {"outcome": "reset", "at": 1000.5, "bytes": 7, "wrong": False, "pause": 0.25}
    assert handoff_faults.told(seen, 1000) == {"whole": 0, "reset": 1, "seconds": 0.5, "pause_s": 0.25, "wrong": 0}


@pytest.mark.parametrize("experiment", [HandoffSizes(), HandoffBackends(), HandoffScale(), HandoffFaults()])
def test_what_it_stands_on_is_the_same_for_all_points(experiment: Experiment) -> None:
    links = topology(type(experiment))
    profile = load(experiment.profile, Profile)
    first, *others = (experiment.blueprint(profile, point) for point in experiment.points(links))
    assert all(other == first for other in others)
