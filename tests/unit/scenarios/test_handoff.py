"""What the experiments with a request hand-off claim and quote, of readings that no machine gave."""

import json
from collections.abc import Mapping

import pytest

from experiments.bench import handoff_soak
from experiments.handoff import clients, running
from experiments.handoff.contest import PROXIES
from experiments.handoff.network import commands
from experiments.scenarios import handoff_backends, handoff_faults
from experiments.scenarios.handoff_backends import HandoffBackends
from experiments.scenarios.handoff_faults import HandoffFaults
from experiments.scenarios.handoff_scale import HandoffScale
from experiments.scenarios.handoff_sizes import HandoffSizes, even_from
from experiments.study.experiment import Experiment
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import at, by, claims_test, drawn, failed, judged, profile, quoted, topology
from tributary.settings.errors import CommandError


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


test_claims_on_back_ends = claims_test(
    HandoffBackends,
    backends,
    at("by=handoff,next=another", "another back end costs a request less than a millisecond", request_us=4000),
    at("by=handoff,next=another", "no answer passes the front", front_percent=100),
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
    by(lambda point: scale(point, most=5), "8 back ends give nearly 8 times what one gives"),
    at("by=handoff", "the front's link idles", front_percent=100),
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
    kind = type(experiment)
    first, *others = (experiment.blueprint(profile(kind), point) for point in experiment.points(topology(kind)))
    assert all(other == first for other in others)


HTTP = {"a": "10.7.2.2:80", "b": "10.7.3.2:80"}
COSTS = {"teardown_us": 300, "next_us": 900, "rule_us": 20, "rewrite_ns_60": 70, "rewrite_ns_1514": 71}
COSTS |= {"xdp_rewrite_ns_60": 50, "xdp_rewrite_ns_1514": 51}
MBPS = {"handoff": 1900.0, "direct": 1950.0, "nginx": 940.0, "haproxy": 950.0}


def contest(point: Point) -> Mapping[str, float]:
    by = point["by"]
    if point.get("what") == "costs":
        return COSTS
    if "size" not in point:
        return {"startup_us": 600 if by == "handoff" else 400, "latency_2mb_us": 17_000 if by == "handoff" else 16_830}
    # A hand-over costs as much as 60 kB take.
    size = int(point["size"])
    share = size / (size + 60_000) if by == "handoff" else 1
    return {"mbps": share * MBPS[by], "front_cpu_ms_per_gb": 100 if by == "handoff" else 1000}


def told(*absent: str) -> dict[str, float]:
    return quoted(HandoffSizes, lambda point: {} if point["by"] in absent else contest(point))


def test_ratios_are_to_the_better_proxy_and_to_direct_and_larger_is_better() -> None:
    found = told()
    share = 2000 / 2060
    assert found["throughput_2mb_vs_proxy"] == pytest.approx(share * 2)
    assert found["throughput_2mb_vs_direct"] == pytest.approx(share * 1900 / 1950)
    assert found["front_cpu_saving_2mb"] == pytest.approx(10)
    assert found["latency_2mb_vs_direct"] == pytest.approx(0.99)


def test_values_of_ours_have_plain_names() -> None:
    found = told()
    assert found.items() >= COSTS.items()
    assert (found["startup_us"], found["direct_startup_us"], found["nginx_startup_us"]) == (600, 400, 400)
    # 64 of 124 kB are a little more than a half, which twice the proxy's rate makes up for.
    assert found["even_from_kb"] == 64


def test_without_a_proxy_there_is_nothing_to_be_even_with() -> None:
    found = told("nginx", "haproxy")
    assert "even_from_kb" not in found
    assert "throughput_2mb_vs_proxy" not in found
    assert "throughput_2mb_vs_direct" in found


def test_even_is_from_where_on_no_proxy_is_better_any_more() -> None:
    assert even_from({10: [1.2], 20: [0.9, 1.1], 40: [1.0, 1.3], 80: [2.0, 1.9]}) == 40
    assert even_from({10: [1.2], 20: [0.9]}) is None
    assert even_from({10: []}) is None


def test_clients_side_by_side_are_added_up() -> None:
    one = {"requests": 100, "bytes": 10**8, "microseconds": 10**6, "errors": 0}
    got = clients.told([one, one | {"microseconds": 2 * 10**6, "errors": 3}])
    assert got == {"mbps": 1200, "per_second": 150, "errors": 3}


def test_times_belong_to_their_connections() -> None:
    printed = "1 0.001000\n0 0.000500\n1 0.002000\n0 0.000700\n"
    assert clients.grouped(printed, 2) == [[1000, 500], [2000, 700]]
    with pytest.raises(CommandError, match="more than one connection"):
        clients.grouped("1 0.001000\n1 0.000500\n", 2)


def test_each_back_end_has_its_place_in_every_configuration() -> None:
    for proxy in PROXIES.values():
        text = proxy.configuration(HTTP)
        assert all(f"/{name}/" in text and http in text for name, http in HTTP.items())
        assert str(proxy.port) in text
    assert running.rules(("a", "b")).count("[[handoff.rules]]") == 4


def test_a_link_has_one_rate_and_a_bounded_queue() -> None:
    qdisc, one_class, queue = commands("eth0", 10**9)
    assert "htb default 1" in qdisc
    assert "rate 1000000000bit ceil 1000000000bit" in one_class
    assert "bfifo limit" in queue


def test_a_soak_fails_for_a_wrong_answer_and_for_a_broken_connection() -> None:
    counts = {"answers": 100, "bytes": 10**6, "wrong": 0, "connections": 5, "broken": 0, "rested": 0}
    report = counts | {"per_second": 50.0}
    log = '{"outcome":"handed-over"}\n' * 4
    assert handoff_soak.told(report, log)["handed_over"] == 4
    for wrong in ("wrong", "broken"):
        with pytest.raises(CommandError, match=json.dumps(wrong)):
            handoff_soak.told(report | {wrong: 1}, log)
