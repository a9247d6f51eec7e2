"""The cases that are drawn by lot, and what their readings are held against."""

import pytest

from experiments.scenarios.never_below import NeverBelow, drawn_cases
from experiments.study.changes import orders
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, differing, drawn, failed, ground_of, judged, quoted, topology
from tributary.settings.errors import CommandError
from tributary.settings.units import Share, Size

POINTS = NeverBelow().points(topology(NeverBelow))


def good(point: Point) -> dict[str, float]:
    alone = {"first": 40.0, "second": 10.0, "third": 5.0}
    together = sum([*alone.values()][: 1 + point["links"].count(";")])
    return {"seconds": 1.0, "mbps": alone[point["link"]] if point["by"] == "legacy" else together}


def test_the_same_seed_draws_the_same_cases_and_another_one_others() -> None:
    assert drawn_cases(20, 1) == drawn_cases(20, 1) != drawn_cases(20, 2)


def test_the_cases_fill_every_range_evenly() -> None:
    cases = drawn_cases(60, 1)
    for link in ("first", "second"):
        rates = sorted(rate.amount for case in cases if (rate := case.links[link].rate))
        # A sixtieth of the logarithm's range has one each.
        assert all(0.85 < rate / (5e6 * 40 ** ((n + 0.5) / 60)) < 1.15 for n, rate in enumerate(rates))
        assert sum(case.links[link].loss == Share(0) for case in cases) == 30
    assert sum(len(case.links) == 3 for case in cases) == 10
    assert sum(case.size <= Size.parse("1MB") for case in cases) == 30
    assert len({case.size for case in cases}) == 9


def test_no_size_takes_the_fastest_link_longer_than_six_seconds() -> None:
    for case in drawn_cases(60, 1):
        fastest = max(link.rate.amount for link in case.links.values() if link.rate)
        assert 8 * case.size.amount <= 6 * fastest


def test_the_links_of_a_point_are_those_of_its_case() -> None:
    cases = drawn_cases(NeverBelow().cases, NeverBelow().seed)
    for point in POINTS:
        if point["settings"] not in ("router", "steered"):
            assert ground_of(NeverBelow, point).profile.links == cases[int(point["case"])].links


def test_only_what_is_steered_has_a_throttler() -> None:
    assert {point["settings"] for point in POINTS if ground_of(NeverBelow, point).steered} == {"steered"}


def test_at_a_router_the_link_begins_that_brings_a_short_download_first() -> None:
    cases = drawn_cases(NeverBelow().cases, NeverBelow().seed)
    begun = [point for point in POINTS if point["settings"] == "router"]
    assert len(begun) == 60
    for point in begun:
        links = ground_of(NeverBelow, point).profile.links
        assert sorted(map(repr, links.values())) == sorted(map(repr, cases[int(point["case"])].links.values()))
        # It is the first one, which has no endpoint to join from.
        assert point["link"] == next(iter(links))
        # Five round trips, in each of which a delay passes twice, and 250 kB; delays are in microseconds.
        takes = [
            10 * link.delay.amount / 1e6 + 2e6 / link.rate.amount for link in links.values() if link.delay and link.rate
        ]
        assert takes[0] == min(takes)


def test_settings_are_the_kernels_own_the_appliances_or_the_routers_with_another_low_mark() -> None:
    point = POINTS[0]
    router, marked = (ground_of(NeverBelow, {**point, "settings": each}) for each in ("router", "4096"))
    assert list(router.profile.links.values()) == list(marked.profile.links.values())
    made = {
        each: ground_of(NeverBelow, {**point, "settings": each}) for each in ("kernel", "unmarked", "appliance", "4096")
    }
    assert [each for each, blueprint in made.items() if not blueprint.tuned] == ["kernel"]
    assert {each: dict(blueprint.sysctls) for each, blueprint in made.items() if blueprint.sysctls} == {
        "unmarked": {"net.ipv4.tcp_notsent_lowat": "4294967295"},
        "4096": {"net.ipv4.tcp_notsent_lowat": "4096"},
    }


def test_one_low_mark_alone_may_be_compared() -> None:
    (order,) = orders([NeverBelow()], ["settings=4096"])
    assert {point["settings"] for point in order.points if point["by"] == "native"} == {"4096"}
    with pytest.raises(CommandError, match="or bytes of a low mark"):
        orders([NeverBelow()], ["settings=4096,fast"])


def test_good_readings_hold_every_claim_and_can_be_drawn() -> None:
    assert failed(NeverBelow, good) == differing(NeverBelow, good) == []
    assert len(drawn(NeverBelow, good).axes) == 2
    assert quoted(NeverBelow, good) == {
        "worst_vs_best_link": 1.25,
        "p5_vs_best_link": 1.25,
        "median_vs_sum": 1,
        "short_worst_vs_best_link": 1.25,
    }


def test_a_case_below_its_best_link_is_named_and_counts() -> None:
    slow = next(point for point in POINTS if Size.parse(point["size"]) > Size.parse("1MB"))
    rule = but(good, {"case": slow["case"], "by": "native", "settings": "router"}, mbps=20.0)
    assert quoted(NeverBelow, rule)["worst_vs_best_link"] == 0.5
    verdicts = [verdict for verdict in judged(NeverBelow, rule) if not verdict.holds]
    assert all(f"{slow['size']} over {slow['links']}" in verdict.measured for verdict in verdicts)
    assert verdicts[0].claim == "a long transfer has 97 % of the best link or more"
    assert failed(NeverBelow, rule) == []


def test_what_is_below_in_most_cases_fails() -> None:
    slow = but(good, {"by": "native", "settings": "router"}, mbps=20.0)
    assert failed(NeverBelow, slow) == [
        "a long transfer has 97 % of the best link or more",
        "so has one of 1MB or less",
    ]
    costly = but(good, {"by": "native", "settings": "kernel"}, mbps=80.0)
    assert failed(NeverBelow, costly) == ["the appliance's settings cost nothing beside the kernel's own"]
