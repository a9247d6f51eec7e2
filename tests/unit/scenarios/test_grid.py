"""Verdicts on many pairs of links, and what each of them is measured on."""

import pytest

from experiments.scenarios.grid import Grid
from experiments.study.readings import Point, name_of
from tests.unit.scenarios.made_up import at, but, claims_test, ground_of, judged, topology

HARD = {"links": "2", "rate": "50mbit", "rtt": "200ms", "loss": "1%"}


def good(point: Point) -> dict[str, float]:
    mbps = 70.0
    if point["by"] == "legacy":
        mbps = {"first": 48.0, "second": 5.0, "third": 19.0}[point["link"]]
    return {"seconds": 8.0, "mbps": mbps, "steady_mbps": mbps, "segments_sent_again": 0.0}


test_claims = claims_test(
    Grid,
    good,
    at(
        f"{name_of(HARD)},by=squid",
        "95 % of the best single link or more (second link 50mbit, 200ms, 1% loss; squid)",
        steady_mbps=45.5,
    ),
    at(
        f"{name_of(HARD)},settings=kernel",
        "the appliance's settings cost nothing anywhere (worst: second link 50mbit, 200ms, 1% loss)",
        steady_mbps=80,
    ),
    panels=1,
)


@pytest.mark.parametrize(
    ("ample", "because"),
    [
        (
            48.0,
            "a send buffer that begins with 8 MB instead of 2 gives 48.0 Mbit/s; the first link waits for room while"
            " what the second one was given is not acknowledged",
        ),
        (
            40.0,
            "what the second link was given at a good moment and then loses holds up all that comes after it: the"
            " kernel sent 0.00 segments of it again by the first one; a send buffer that begins with 8 MB instead of 2"
            " gives 40.0 Mbit/s, and only delays that",
        ),
    ],
)
def test_a_slow_pair_is_explained_by_a_larger_send_buffer_or_not(ample: float, because: str) -> None:
    slow = but(good, HARD | {"settings": "appliance", "by": "squid"}, steady_mbps=45.5)
    slow = but(slow, HARD | {"settings": "ample"}, steady_mbps=ample)
    assert {verdict.because for verdict in judged(Grid, slow)} == {"", because}


def test_the_second_link_is_as_the_point_says_and_its_queue_holds_its_product() -> None:
    point = HARD | {"settings": "kernel", "by": "native", "link": "first", "family": "ipv4"}
    blueprint = ground_of(Grid, point)
    second = blueprint.profile.links["second"]
    assert not blueprint.tuned
    assert (str(second.rate), str(second.delay), str(second.loss), second.queue) == ("50mbit", "100ms", "1%", 833)
    assert list(blueprint.profile.links) == ["first", "second"]


def test_one_pair_is_tried_with_three_links() -> None:
    points = [each for each in Grid().points(topology(Grid)) if each["links"] == "3"]
    assert {(point["rate"], point["rtt"], point["loss"]) for point in points} == {("50mbit", "200ms", "1%")}
    assert list(ground_of(Grid, points[0]).profile.links) == ["first", "second", "third"]
