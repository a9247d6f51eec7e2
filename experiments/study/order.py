"""What is asked of a run: an experiment, with the options and on the links that it shall run with. Pure."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.results import commit
from experiments.study.blueprint import Blueprint
from experiments.study.readings import Point
from experiments.study.scenario import Options, Scenario
from experiments.testbed.topology import Profile, Topology


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

    @property
    def readings(self) -> Iterator[tuple[int, Point]]:
        """The repetition and the point of each, in the order to take them."""
        for repetition in range(1, self.options.repeat + 1):
            turned = self.scenario.in_turn and repetition % 2 == 0
            yield from ((repetition, point) for point in (self.points[::-1] if turned else self.points))

    def blueprint(self, point: Point) -> Blueprint:
        """What to measure ``point`` on."""
        return self.scenario.blueprint(self.options, self.profile, point)

    def place(self, reading: tuple[int, Point]) -> tuple[int, Blueprint]:
        """What a reading is taken on, and the seed for that: its repetition, where each has links of its own."""
        repetition, point = reading
        return (1 if self.scenario.in_turn else repetition), self.blueprint(point)

    def plan(self) -> dict[str, object]:
        """What two runs must agree in for one to go on where the other stopped."""
        axes = {key: list(values) for key, values in self.scenario.axes.items()}
        return {
            "scenario": self.scenario.name,
            "options": self.options.model_dump(mode="json"),
            "links": self.profile.model_dump(mode="json", exclude_none=True),
            **({"axes": axes} if axes else {}),
            **({"hosts": dict(self.scenario.hosts)} if self.scenario.hosts else {}),
            "kernel": platform.release(),
            "commit": commit(),
        }
