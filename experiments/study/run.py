"""One run of an experiment: what is missing is measured, then judged and drawn from the readings alone."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.results import commit, finish, manifest, write_json
from experiments.study.folder import Folder
from experiments.study.readings import Point, Verdict, name_of
from experiments.study.scenario import Options, Scenario
from experiments.study.stage import Stage, set_up
from experiments.testbed.selfcheck import as_json
from experiments.testbed.topology import Profile, Topology

_TESTBED = "experiment"


@dataclass(frozen=True)
class Order:
    """A scenario with the options and the links that it shall run with."""

    scenario: Scenario[Any]
    options: Options
    profile: Profile

    @property
    def topology(self) -> Topology:
        """The links, numbered."""
        return Topology.of(self.profile)

    @property
    def points(self) -> Sequence[Point]:
        """The circumstances to measure in."""
        return self.scenario.points(self.options, self.topology)

    def plan(self) -> dict[str, object]:
        """What two runs must agree in for one to go on where the other stopped."""
        return {
            "scenario": self.scenario.name,
            "options": self.options.model_dump(mode="json"),
            "links": self.profile.model_dump(mode="json", exclude_none=True),
            "kernel": platform.release(),
            "commit": commit(),
        }


def perform(order: Order, results: Path, console: Console) -> Sequence[Verdict]:
    """Measure what is missing of ``order``, and conclude; returns the verdicts, which lie in ``results`` as well."""
    plan = order.plan()
    folder = Folder.resume_or_begin(results / order.scenario.name, plan)
    wanted = [
        (point, repetition)
        for repetition in range(1, order.options.repeat + 1)
        for point in order.points
        if not folder.has(point, repetition)
    ]
    if wanted:
        console.print(f"{order.scenario.name}: making the testbed, checking its links")
        with set_up(_TESTBED, order.profile) as stage:
            write_json(folder.path / "manifest.json", _manifest(order, plan, stage))
            _measure(order, stage, folder, wanted, console)
    return _conclude(order, folder)


def _measure(order: Order, stage: Stage, folder: Folder, wanted: Sequence[tuple[Point, int]], console: Console) -> None:
    columns = (TextColumn("{task.description:50}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        total = len(order.points) * order.options.repeat
        task = progress.add_task(order.scenario.name, total=total, completed=total - len(wanted))
        for point, repetition in wanted:
            progress.update(task, description=f"{order.scenario.name}: {name_of(point)}")
            folder.add(order.scenario.measure(stage, order.options, point, repetition))
            progress.advance(task)


def _manifest(order: Order, plan: Mapping[str, object], stage: Stage) -> dict[str, object]:
    links = {"emulated_by": stage.testbed.emulation, "measured": as_json(stage.links)}
    return manifest("experiment", plan=plan, paper=order.scenario.paper, links=links)


def _conclude(order: Order, folder: Folder) -> Sequence[Verdict]:
    readings = folder.readings()
    verdicts = order.scenario.judge(order.options, order.topology, readings)
    write_json(folder.path / "verdicts.json", [verdict.as_json() for verdict in verdicts])
    folder.write_tables(readings)
    figure = Figure(figsize=(10, 4), layout="constrained")
    order.scenario.draw(figure, order.topology, readings)
    figure.savefig(folder.path / "plot.svg")
    finish(folder.path)
    return verdicts
