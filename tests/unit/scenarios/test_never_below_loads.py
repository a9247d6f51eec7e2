"""The loads and troubles that are drawn by lot, and which link is in trouble."""

from experiments.scenarios.never_below import drawn_cases
from experiments.scenarios.never_below_loads import NeverBelowLoads
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed, ground_of, judged, quoted, topology
from tests.unit.scenarios.test_never_below import good
from tributary.settings.units import Size

CASES = NeverBelowLoads().drawn()
POINTS = NeverBelowLoads().points(topology(NeverBelowLoads))


def test_every_load_and_every_trouble_is_drawn() -> None:
    loads = [case.load["load"] for case in CASES]
    assert {each: loads.count(each) for each in loads} == {"download": 20, "upload": 20, "eight downloads": 20}
    troubles = [case.load["trouble"] for case in CASES]
    assert all(troubles.count(each) >= 10 for each in ("nothing", "bursts", "trace"))
    assert all(troubles.count(f"outage of {seconds} s") >= 3 for seconds in ("0.5", "3", "10"))


def test_sizes_and_links_are_those_of_never_below_but_for_the_trace() -> None:
    for case, plain in zip(CASES, drawn_cases(60, 1), strict=True):
        assert case.size == plain.size
        same = [name for name in plain.links if case.links[name] == plain.links[name]]
        assert same == [name for name in plain.links if case.load["trouble"] != "trace" or name != "first"]


def test_a_trace_varies_the_first_link_downwards_and_its_loss_and_delay_are_as_drawn() -> None:
    for case, plain in zip(CASES, drawn_cases(60, 1), strict=True):
        first, before = case.links["first"], plain.links["first"]
        assert (first.loss, first.delay, first.queue) == (before.loss, before.delay, before.queue)
        assert bool(first.down.trace) == (case.load["trouble"] == "trace")


def test_an_outage_is_for_transfers_that_last() -> None:
    assert all(case.size > Size.parse("1MB") for case in CASES if "outage" in case.load["trouble"])


def test_the_same_seed_draws_the_same_loads_and_another_one_others() -> None:
    assert NeverBelowLoads().drawn() == CASES != NeverBelowLoads(seed=2).drawn()


def test_points_say_what_their_case_is_and_begin_on_the_quickest_link_at_a_router() -> None:
    for point in POINTS:
        case = CASES[int(point["case"])]
        assert (point["load"], point["trouble"]) == (case.load["load"], case.load["trouble"])
        blueprint = ground_of(NeverBelowLoads, point)
        assert not blueprint.steered
        assert sorted(map(repr, blueprint.profile.links.values())) == sorted(map(repr, case.links.values()))


def rule(point: Point) -> dict[str, float]:
    return {key: value for key, value in good(point).items() if key in ("seconds", "mbps")}


def test_readings_are_judged_as_those_of_one_download() -> None:
    assert failed(NeverBelowLoads, rule) == []
    assert len(drawn(NeverBelowLoads, rule).axes) == 2
    slow = next(point for point in POINTS if Size.parse(point["size"]) > Size.parse("1MB"))
    below = but(rule, {"case": slow["case"], "by": "native", "settings": "router"}, mbps=20.0)
    assert quoted(NeverBelowLoads, below)["worst_vs_best_link"] == 0.5
    (verdict, *_) = [verdict for verdict in judged(NeverBelowLoads, below) if not verdict.holds]
    assert f"{slow['links']}, {slow['load']}, {slow['trouble']}" in verdict.measured
