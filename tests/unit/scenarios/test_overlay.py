"""Verdicts on chains of converters: which are chosen, what they carry, what fails, what a relay leaves."""

import pytest
from matplotlib.figure import Figure

from experiments.scenarios.overlay_faults import OverlayFaults, of_answers, of_chains, of_flows
from experiments.scenarios.overlay_leave import OverlayLeave, told
from experiments.scenarios.overlay_paths import OverlayPaths
from experiments.scenarios.overlay_transfer import CDN, DIRECT, NEW, ONE, THREE, OverlayTransfer
from experiments.study.readings import Point, Reading, Readings
from tests.unit.scenarios.made_up import at, claims_test, topology


def faults(point: Point) -> dict[str, float]:
    stays = point["fault"] in ("etcd-away", "controller-away")
    cut = point["fault"] in ("node-killed", "node-hung")
    flows = {"through_cut": float(point["fault"] == "node-killed"), "beside_cut": 0.0}
    requests = {"cut": float(cut), "failed": 0.0, "slowest_ms": 200.0}
    chains = {"out_s": 2.0, "back_s": 1.0, "changes": 0.0 if stays else 2.0}
    return {"begun_s": 2.0, "ended_s": 62.0} | flows | requests | chains


def test_they_can_be_drawn() -> None:
    series = {"answers": [(0.1, 130.0)], "failures": [(2.1, 30.0)]}
    points = OverlayFaults().points(topology(OverlayFaults))
    figure = Figure()
    OverlayFaults().draw(
        figure, topology(OverlayFaults), Readings(Reading(each, 1, faults(each), series) for each in points)
    )
    assert [axes.get_title() for axes in figure.axes] == [each["fault"] for each in points]


test_claims_on_faults = claims_test(
    OverlayFaults,
    faults,
    at("fault=node-killed", "the download beside is not cut (node-killed)", beside_cut=1.0),
    at("fault=etcd-away", "the download by the best chain is not cut (etcd-away)", through_cut=1.0),
    at("fault=link-grown", "no request under way is cut (link-grown)", cut=1.0),
    at("fault=node-hung", "no new connection fails (node-hung)", failed=1.0),
    at("fault=node-hung", "the slowest new connection has its bytes soon (node-hung)", slowest_ms=10_000.0),
    at("fault=controller-away", "the routes stay as they are (controller-away)", changes=1.0),
    at("fault=node-killed", "new connections soon take another chain (node-killed)", out_s=3.1),
    at("fault=agents-silent", "the best chain is soon used again (agents-silent)", back_s=5.1),
)


def test_requests_that_were_under_way_are_not_new_ones() -> None:
    answered, lost = [(0.0, 100.0), (1.0, 300.0), (2.0, 200.0)], [(0.9, 5000.0), (1.1, 50.0)]
    assert of_answers(answered, lost, begun=1.0) == {"failed": 1.0, "cut": 1.0, "slowest_ms": 300.0}


def test_a_download_that_failed_has_no_pause() -> None:
    assert of_flows(None, {"longest_pause": 0.1}) == {"through_cut": 1.0, "beside_cut": 0.0, "beside_pause_s": 0.1}


@pytest.mark.parametrize(
    ("chains", "values"),
    [
        ([(0.0, "best")], {"out_s": 9.0, "back_s": 0.0, "changes": 0.0}),
        ([(0.0, "best"), (3.0, "none"), (3.5, "second"), (7.0, "best")], {"out_s": 2.0, "back_s": 1.0, "changes": 3.0}),
        ([(0.0, "best"), (3.0, "second")], {"out_s": 2.0, "back_s": 4.0, "changes": 1.0}),
        ([(0.0, "best"), (3.0, "second"), (4.0, "best")], {"out_s": 2.0, "back_s": 0.0, "changes": 2.0}),
    ],
)
def test_time_counts_from_the_fault_and_from_its_end(chains: list[tuple[float, str]], values: dict[str, float]) -> None:
    assert of_chains(chains, begun=1.0, ended=6.0, last=10.0) == values


def leave(_point: Point) -> dict[str, float]:
    return {"kept": 0.98, "timers": 0.0}


test_claims_on_leave = claims_test(
    OverlayLeave,
    leave,
    at("rtt=20,steps=none", "throughput comes back (20 ms, no steps)", kept=0.5),
    at("rtt=100,steps=10 ms", "throughput comes back (100 ms, steps of 10 ms)", kept=0.5),
    at("rtt=100,steps=none", "no timer ends (100 ms, no steps)", timers=1.0),
    at("rtt=20,steps=10 ms", "no timer ends (20 ms, steps of 10 ms)", timers=1.0),
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


PERCENTILES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)


def paths(point: Point) -> dict[str, float]:
    values = {"converters": 4.0}
    for name, longer in {"shortest": 100.0, "minimax": 20.0, "tree": 30.0}.items():
        same = point["rounds"] == "1" and name == "shortest"
        values |= {f"{name}_longer_p{at}_percent": 0.0 if same else longer * at / 100 for at in PERCENTILES}
        values |= {f"{name}_pairs_longer_percent": 25.0, f"{name}_pairs_40_longer_percent": 12.0}
        values[f"{name}_fewer_converters_percent"] = 16.0
    return values


test_claims_on_paths = claims_test(
    OverlayPaths,
    paths,
    at("rounds=1", "one round: as short as the shortest path, for every pair", shortest_longer_p100_percent=0.1),
    at("rounds=1", "one round: tree takes over 40 % longer for 10 % of the pairs", tree_pairs_40_longer_percent=9.0),
    at("rounds=5", "5 rounds, beside minimax: less time for 20 % of the pairs", minimax_pairs_longer_percent=19.0),
    at("rounds=5", "5 rounds, beside tree: up to 15 % less time", tree_longer_p99_percent=17.0),
    at("rounds=10", "10 rounds, beside minimax: 14 % fewer converters", minimax_fewer_converters_percent=13.9),
    panels=3,
    differing_too=True,
)


SIZES = [size.amount // 1000 for size in OverlayTransfer().size]
TAKES = {DIRECT: 400.0, ONE: 230.0, THREE: 200.0, NEW: 300.0, CDN: 200.0}


def transfer(point: Point) -> dict[str, float]:
    return {f"{what}_ms_{size}": TAKES[point["by"]] for what in ("first_byte", "whole") for size in SIZES}


test_claims_on_transfer = claims_test(
    OverlayTransfer,
    transfer,
    at(f"by={DIRECT}", "50 kB come 60 % faster by three converters than directly", whole_ms_50=310.0),
    at(f"by={ONE}", "50 kB by one converter: within 35 % of a warm CDN", whole_ms_50=280.0),
    at(f"by={THREE}", "50 kB by three converters: as by a warm CDN, or faster", whole_ms_50=215.0),
    panels=1,
    differing_too=True,
)
