"""Benchmarks: the order of their readings, and what is quoted of these."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.bench.__main__ import main as bench
from experiments.study.catalogue import BENCHMARKS, EVERYTHING
from experiments.study.changes import orders
from experiments.study.experiment import Experiment
from experiments.study.metrics import RATIO, Metric, as_json, draw, missing, ratio
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

    def get(self, name: str, _otherwise: object = None) -> float:
        return self[name]


QUOTING = [name for name, each in EVERYTHING.items() if each.quotes or type(each).metrics is not Experiment.metrics]


def everything(point: Point) -> dict[str, float]:
    return Anything(mbps=float(len(str(point))))


def order(name: str, quick: bool = False) -> Order:
    (made,) = orders([EVERYTHING[name]], (), quick)
    return made


def test_what_claims_nothing_quotes_metrics() -> None:
    assert {*BENCHMARKS} <= {*QUOTING}


@pytest.mark.parametrize("name", QUOTING)
def test_metrics_have_names_of_their_own_and_are_drawn_where_there_is_no_plot(name: str) -> None:
    experiment = EVERYTHING[name]
    assert experiment.name == name
    made_up = readings(type(experiment), everything)
    metrics = experiment.quoted(made_up)
    assert metrics and len({each.name for each in metrics}) == len(metrics)
    if type(experiment).draw is Experiment.draw:
        figure = Figure()
        experiment.draw(figure, topology(type(experiment)), made_up)
        assert len(figure.axes) == len({each.unit for each in metrics} - {RATIO, "1"})


@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_is_less_of_the_same(name: str) -> None:
    full, quick = order(name), order(name, quick=True)
    assert quick.experiment != full.experiment
    assert len(list(quick.readings)) <= len(list(full.readings))


def test_what_is_measured_in_turn_stands_once_and_each_repetition_has_it_the_other_way_round() -> None:
    scale = order("bench-throttler-scale", quick=True)
    tables = [point["table"] for _, point in scale.readings]
    assert tables[:6] == ["full table", "one element", "one element", "full table", "full table", "one element"]
    first, *others = (scale.stands_on(each) for each in scale.readings)
    assert all(each == first for each in others)


def test_other_repetitions_have_links_of_their_own() -> None:
    seeds = [order("shared-bottleneck").stands_on(each)[0] for each in order("shared-bottleneck").readings]
    assert seeds == sorted(seeds) and set(seeds) == {1, 2, 3}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (of("native", 10, 30, 20), of("squid", 4, 4, 100), [2.5, 7.5, 0.2]),
        (of("native", 10, 30), of("squid", 5, first=2), [6]),
        (of("native", 10), of("squid"), []),
    ],
)
def test_a_ratio_is_that_of_each_repetition_with_both(ours: Readings, theirs: Readings, expected: list[float]) -> None:
    assert ratio("x", ours.repeated("mbps"), theirs.repeated("mbps")) == Metric("x", expected, RATIO)


def test_who_was_not_measured_is_missing() -> None:
    nothing = Reading({"by": "varnish"}, 1, {STOLEN: 0.5}, {})
    assert missing(Readings([*of("native", 1), nothing])) == ["varnish"]
    assert missing(Readings([Reading({"leaf": "pfifo"}, 1, {}, {})])) == []


def test_metrics_are_told_by_ratios_values_and_every_number() -> None:
    told = as_json([Metric("a_ms", [1.0, 2.0, 9.0]), Metric("a_vs_b", [2.0, 4.0], RATIO), Metric("joins", [7])])
    assert (told["ratios"], told["values"]) == ({"a_vs_b": 3}, {"a_ms": 2, "joins": 7})
    assert told["series"] == [
        {"name": "a_ms", "unit": "ms", "numbers": [1, 2, 9]},
        {"name": "joins", "unit": "1", "numbers": [7]},
    ]


@pytest.mark.parametrize("units", [(), ("ms",), ("ms", "Mbit/s", "ms")])
def test_a_panel_for_each_unit(units: Sequence[str]) -> None:
    figure = Figure()
    draw(figure, [Metric(f"{n}", [1.0, 2.0], unit) for n, unit in enumerate(units)])
    assert len(figure.axes) == len(set(units))


def test_single_measurements_survive_their_file_and_stand_for_the_value() -> None:
    kept = Reading({"leaf": "pfifo"}, 1, {"rtt_ms": 2.0}, {}, {"rtt_ms": [1.0, 2.0, 9.0]})
    assert Reading.read(json.loads(json.dumps(kept.as_json()))) == kept
    assert Readings([kept]).samples("rtt_ms") == [1, 2, 9]
    assert of("native", 10, 20).samples("mbps") == [10, 20]


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *("aggregation", "enforcement", "converter", "converter-growth", "throttler-scale"),
        *("queueing-delay", "converter-soak", "acceleration", "overlay"),
        *("offload", "offload-soak", "handoff", "handoff-soak", "steering", "home"),
        *("console", "accuracy"),
    ]


def test_a_benchmark_that_ran_is_on_the_page(tmp_path: Path) -> None:
    write_run(tmp_path, BENCHMARKS["bench-acceleration-one-core"], everything)
    page = report(tmp_path)
    assert "What is asked What does a converter move through one processor" in page.text
    assert "Metrics one core, native" in page.text
    assert "bench-enforcement" not in page.text
