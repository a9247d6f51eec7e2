"""Verdicts on what an overlay does while something fails."""

import pytest
from matplotlib.figure import Figure

from experiments.scenarios.overlay_faults import OverlayFaults, of_answers, of_chains, of_flows
from experiments.study.readings import Point, Reading, Readings
from tests.unit.scenarios.made_up import but, claims_test, topology

DIES = ("node-killed", "node-hung")


def good(point: Point) -> dict[str, float]:
    stays = point["fault"] in ("etcd-away", "controller-away")
    return {
        "begun_s": 2.0,
        "ended_s": 62.0,
        "through_cut": float(point["fault"] == "node-killed"),
        "beside_cut": 0.0,
        "cut": float(point["fault"] in DIES),
        "failed": 0.0,
        "slowest_ms": 200.0,
        "out_s": 2.0,
        "back_s": 1.0,
        "changes": 0.0 if stays else 2.0,
    }


def test_they_can_be_drawn() -> None:
    series = {"answers": [(0.1, 130.0)], "failures": [(2.1, 30.0)]}
    points = OverlayFaults().points(topology(OverlayFaults))
    figure = Figure()
    OverlayFaults().draw(
        figure, topology(OverlayFaults), Readings(Reading(each, 1, good(each), series) for each in points)
    )
    assert [axes.get_title() for axes in figure.axes] == [each["fault"] for each in points]


test_claims = claims_test(
    OverlayFaults,
    good,
    (but(good, {"fault": "node-killed"}, beside_cut=1.0), "the download beside is not cut (node-killed)"),
    (but(good, {"fault": "etcd-away"}, through_cut=1.0), "the download by the best chain is not cut (etcd-away)"),
    (but(good, {"fault": "link-grown"}, cut=1.0), "no request under way is cut (link-grown)"),
    (but(good, {"fault": "node-hung"}, failed=1.0), "no new connection fails (node-hung)"),
    (
        but(good, {"fault": "node-hung"}, slowest_ms=10_000.0),
        "the slowest new connection has its bytes soon (node-hung)",
    ),
    (but(good, {"fault": "controller-away"}, changes=1.0), "the routes stay as they are (controller-away)"),
    (but(good, {"fault": "node-killed"}, out_s=3.1), "new connections soon take another chain (node-killed)"),
    (but(good, {"fault": "agents-silent"}, back_s=5.1), "the best chain is soon used again (agents-silent)"),
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
def test_the_time_counts_from_the_fault_and_from_its_end(
    chains: list[tuple[float, str]], values: dict[str, float]
) -> None:
    assert of_chains(chains, begun=1.0, ended=6.0, last=10.0) == values
