"""Benchmarks: the order of their readings, and what is quoted of these."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.bench.__main__ import main as bench
from experiments.study.benchmark import draw_series
from experiments.study.catalogue import BENCHMARKS
from experiments.study.changes import orders
from experiments.study.figures import Figures, Series, missing, pairs, ratios
from experiments.study.order import Order
from experiments.study.readings import STOLEN, Point, Reading, Readings
from tests.unit.scenarios.made_up import readings, topology
from tests.unit.study.test_report import report, write_run


def of(name: str, *numbers: float, first: int = 1) -> Readings:
    return Readings(Reading({"by": name}, first + n, {"mbps": each}, {}) for n, each in enumerate(numbers))


class Anything(dict[str, float]):
    """A number for each value that a benchmark may ask for."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, name: str) -> float:
        return float(len(name))


def everything(point: Point) -> dict[str, float]:
    return Anything(mbps=float(len(str(point))))


def order(name: str, quick: bool = False) -> Order:
    (made,) = orders([BENCHMARKS[name]], (), quick)
    return made


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_quotes_figures_and_draws_them(name: str) -> None:
    scenario = BENCHMARKS[name]
    assert scenario.name == name and scenario.figures is not None
    made_up = readings(scenario, everything)
    figures = scenario.figures(made_up)
    assert figures.ratios or figures.values
    figure = Figure()
    scenario.draw(figure, topology(scenario), made_up)
    assert len(figure.axes) == len({each.unit for each in figures.series})


@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_is_less_of_the_same(name: str) -> None:
    full, quick = order(name), order(name, quick=True)
    assert quick.options != full.options
    assert len(list(quick.readings)) <= len(list(full.readings))


def test_what_is_measured_in_turn_stands_once_and_each_repetition_has_it_the_other_way_round() -> None:
    scale = order("bench-throttler-scale", quick=True)
    tables = [point["table"] for _, point in scale.readings]
    assert tables[:6] == ["full table", "one element", "one element", "full table", "full table", "one element"]
    assert len({scale.place(each) for each in scale.readings}) == 1


def test_other_repetitions_have_links_of_their_own() -> None:
    seeds = [order("bench-aggregation").place(each)[0] for each in order("bench-aggregation").readings]
    assert seeds == sorted(seeds) and set(seeds) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (of("native", 10, 30, 20), of("squid", 4, 4, 100), {"x": 2.5}),
        (of("native", 10, 30), of("squid", 5, first=2), {"x": 6}),
        (of("native", 10), of("squid"), {}),
    ],
)
def test_a_ratio_is_the_median_of_those_of_each_repetition(
    ours: Readings, theirs: Readings, expected: dict[str, float]
) -> None:
    assert ratios("mbps", {"x": (ours, theirs)}) == expected
    assert len(pairs(ours, theirs, "mbps")) <= len(list(theirs))


def test_who_was_not_measured_is_missing() -> None:
    nothing = Reading({"by": "varnish"}, 1, {STOLEN: 0.5}, {})
    assert missing(Readings([*of("native", 1), nothing])) == ["varnish"]
    assert missing(Readings([Reading({"leaf": "pfifo"}, 1, {}, {})])) == []


def test_figures_of_several_scenarios_are_told_together() -> None:
    one, other = Series("a", "ms", [1.0]), Series("b", "ms", [2.0])
    both = Figures([one], {"r": 1}, {"a_ms": 1}) | Figures([other], {"s": 2}, {"b_ms": 2})
    assert both == Figures([one, other], {"r": 1, "s": 2}, {"a_ms": 1, "b_ms": 2})


@pytest.mark.parametrize("units", [(), ("ms",), ("ms", "Mbit/s", "ms")])
def test_a_panel_for_each_unit(units: Sequence[str]) -> None:
    figure = Figure()
    draw_series(figure, Figures([Series(f"{n}", unit, [1.0, 2.0]) for n, unit in enumerate(units)]))
    assert len(figure.axes) == len(set(units))


def test_single_measurements_survive_their_file_and_stand_for_the_value() -> None:
    kept = Reading({"leaf": "pfifo"}, 1, {"rtt_ms": 2.0}, {}, {"rtt_ms": [1.0, 2.0, 9.0]})
    assert Reading.read(json.loads(json.dumps(kept.as_json()))) == kept
    assert Readings([kept]).samples("rtt_ms") == [1, 2, 9]
    assert of("native", 10, 20).samples("mbps") == [10, 20]


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *("aggregation", "enforcement", "converter", "throttler-scale"),
        *("queueing-delay", "converter-soak", "acceleration", "overlay"),
        *("offload", "offload-soak", "handoff", "handoff-soak", "home", "accuracy"),
    ]


def test_a_benchmark_that_ran_is_on_the_page(tmp_path: Path) -> None:
    write_run(tmp_path, BENCHMARKS["bench-aggregation"], everything)
    page = report(tmp_path)
    assert "What is asked Does MPTCP through the gateway use both links?" in page.text
    assert "Figures mptcp_vs_best_link" in page.text
    assert "bench-enforcement" not in page.text
