"""What is asked of a run: an experiment, with the options and on the links that it shall run with. Pure."""

import platform
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.results import commit, uncommitted
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
        """The repetition and the point of each, in the order to take them.

        That is random, another one in each repetition and the same in each run, so that what drifts while a run goes on
        is no property of a point; but points with one blueprint stay together, whose testbed is made once.
        """
        for repetition in range(1, self.options.repeat + 1):
            if self.scenario.in_turn:
                points = self.points[::-1] if repetition % 2 == 0 else self.points
            else:
                points = self._shuffled(repetition)
            yield from ((repetition, point) for point in points)

    def _shuffled(self, repetition: int) -> list[Point]:
        chance = random.Random(f"{self.scenario.name} {repetition}")
        grounds = [(self.blueprint(point), point) for point in self.points]
        places = [
            place for number, (place, _) in enumerate(grounds) if place not in [each for each, _ in grounds[:number]]
        ]
        chance.shuffle(places)
        together = [[point for ground, point in grounds if ground == place] for place in places]
        return [point for points in together for point in chance.sample(points, len(points))]

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
            "uncommitted": uncommitted(),
            **({"files": dict(self.scenario.files)} if self.scenario.files else {}),
        }
