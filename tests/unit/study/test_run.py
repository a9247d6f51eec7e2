"""Several experiments in a row: one that cannot be measured costs the others nothing."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from experiments.bench import __main__ as bench
from experiments.study import __main__ as study
from experiments.study.catalogue import SCENARIOS
from experiments.study.changes import orders
from experiments.study.command import Allowed
from experiments.study.folder import Folder
from experiments.study.order import Order
from experiments.study.readings import Readings, exactly
from experiments.study.run import Measuring, Outcome
from tests.refusals import command_error
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Share

ALLOWED = Allowed(Share(20_000), Share(50_000))
NAMES = ("legacy", "multipath", "mtu", "delays")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> Sequence[Order]:
    """Four experiments, of which the second and the last cannot be measured."""

    def perform(_measuring: Measuring, order: Order) -> Outcome:
        if order.experiment.name in ("multipath", "delays"):
            code = Exit.IN_USE if order.experiment.name == "multipath" else Exit.SYSTEM
            raise CommandError(code, f"link of {order.experiment.name}: [off] by 9%")
        return Outcome(Readings(), [exactly("the same", "1", "1")])

    monkeypatch.setattr(Measuring, "perform", perform)
    monkeypatch.setattr(study, "measure_released", lambda: None)
    return orders([SCENARIOS[name] for name in NAMES], ())


def measuring(results: Path) -> Measuring:
    return Measuring("experiment", "none", results, Console(stderr=True), ALLOWED)


def test_of_all_those_that_can_be_measured_are_shown_and_the_first_failure_is_the_exit_code(
    wanted: Sequence[Order], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with command_error(Exit.IN_USE, "not measured to the end: multipath, delays"):
        study._perform(measuring(tmp_path), True, wanted)
    told = capsys.readouterr()
    assert list(json.loads(told.out)) == ["legacy", "mtu"]
    assert told.err.splitlines() == ["multipath: link of multipath: [off] by 9%", "delays: link of delays: [off] by 9%"]


def test_a_single_one_says_why_and_nothing_else(
    wanted: Sequence[Order], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with command_error(Exit.IN_USE, "link of multipath"):
        study._perform(measuring(tmp_path), True, wanted[1:2])
    assert capsys.readouterr() == ("", "")


def test_a_benchmark_of_several_shows_what_there_is(
    wanted: Sequence[Order], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="not measured to the end: multipath, delays"):
        bench._measure("any", wanted, tmp_path, ALLOWED, True)
    assert json.loads(capsys.readouterr().out)["values"] == {}


def test_readings_by_other_limits_are_another_run_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken with more stolen, over links that are more off, or beside captures, is not mixed with the rest."""
    plans: list[object] = []

    def begun(_parent: Path, plan: object) -> None:
        plans.append(plan)
        raise CommandError(Exit.IN_USE, "no more is asked here")

    monkeypatch.setattr(Folder, "resumed_or_begun", begun)
    (order,) = orders([SCENARIOS["legacy"]], ())
    half = Share(500_000)
    for allowed, pcap in ((ALLOWED, False), (replace(ALLOWED, most_stolen=half), False), (ALLOWED, True)):
        for each in (allowed, replace(allowed, tolerance=half)):
            with pytest.raises(CommandError):
                Measuring("experiment", "none", tmp_path, Console(), each, pcap).perform(order)
    assert all(plan not in plans[:number] for number, plan in enumerate(plans))
