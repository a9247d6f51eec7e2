"""What is asked of a run: an experiment, with the options, links and axes that it shall run with. Pure."""

import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from json import dumps
from typing import TYPE_CHECKING

from experiments.results import commit, uncommitted
from experiments.study.axes import is_of_links, put
from experiments.study.blueprint import Blueprint, TestbedBlueprint
from experiments.study.experiment import Experiment
from experiments.study.plot import resize
from experiments.study.readings import Point, Readings, Verdict
from experiments.testbed.topology import FAMILIES, IPV6_LEAST_MTU, Profile, Topology
from tributary.settings.errors import invalid_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Place:
    """Where it runs: in namespaces of this machine, or on the real ones that are ``described`` (study/hosts.py)."""

    topology: Callable[[Profile], Topology] = Topology.of
    blueprint: Callable[[Blueprint], Blueprint] = lambda blueprint: blueprint
    described: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Combination:
    """One value of each axis, and the links that come of it."""

    values: Mapping[str, str]
    topology: Topology

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


@dataclass(frozen=True)
class Order:
    """An experiment with the links that it shall run over, at all combinations of the values of its ``axes``."""

    experiment: Experiment
    profile: Profile
    axes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    place: Place = field(default_factory=Place)

    @property
    def combinations(self) -> list[Combination]:
        """Without axes a single one, of no values."""
        each = (dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values()))
        return [Combination(values, self._topology_at(values)) for values in each]

    def _topology_at(self, values: Mapping[str, str]) -> Topology:
        """Without IPv6 where packets are too small for it."""
        swept = self._swept(values)
        topology = self.place.topology(swept.profile)
        too_small = swept.mtu is not None and swept.mtu < IPV6_LEAST_MTU
        return replace(topology, families=FAMILIES[:1]) if too_small else topology

    def _swept(self, values: Mapping[str, str]) -> TestbedBlueprint:
        blueprint = TestbedBlueprint(self.profile)
        for key, value in values.items():
            blueprint = put(blueprint, key, value)
        return blueprint

    @property
    def points(self) -> list[Point]:
        return [
            {**self._unswept(point, combination), **combination.values}
            for combination in self.combinations
            for point in self.experiment.points(combination.topology)
        ]

    def _unswept(self, point: Point, combination: Combination) -> Point:
        for key, value in combination.values.items():
            if own := key if key in point else self.experiment.own_axes.get(key):
                accepted = f"--set {own}=..., which {self.experiment.name} sweeps itself"
                raise invalid_value("--sweep", key, value, accepted)
        without = set(FAMILIES) - set(combination.topology.families)
        if point.get("family") in without and "mtu" in combination.values:
            accepted = f"{IPV6_LEAST_MTU} to 9000, since {self.experiment.name} measures over IPv6"
            raise invalid_value("--sweep", "mtu", combination.values["mtu"], accepted)
        return point

    def blueprint(self, point: Point) -> Blueprint:
        """What to measure ``point`` on: what the experiment makes of links is made of them as they are swept."""
        own = {key: value for key, value in point.items() if key not in self.axes}
        values = {key: point[key] for key in self.axes}
        found = self.place.blueprint(self.experiment.blueprint(self._swept(values).profile, own))
        for key, value in values.items():
            swept = put(found, key, value)  # also of links: it refuses those that the experiment has not
            found = found if is_of_links(key) else swept
        return found

    def judged(self, readings: Readings) -> list[Verdict]:
        """The verdicts, at each combination by itself."""
        return [
            replace(verdict, claim=f"{verdict.claim} ({combination})") if self.axes else verdict
            for combination in self.combinations
            for verdict in self.experiment.judge(combination.topology, readings.at(**combination.values))
        ]

    def drawn(self, figure: "Figure", readings: Readings) -> None:
        """Draw the plot of each combination, one below the other."""
        combinations = self.combinations
        if not self.axes:
            self.experiment.draw(figure, combinations[0].topology, readings)
            return
        width, height = figure.get_size_inches()
        parts = figure.subfigures(len(combinations), 1, squeeze=False)[:, 0]
        for part, combination in zip(parts, combinations, strict=True):
            resize(part, width, height)
            part.suptitle(str(combination))
            self.experiment.draw(part, combination.topology, readings.at(**combination.values))

    @property
    def readings(self) -> Iterator[tuple[int, Point]]:
        """The repetition and the point of each, in the order to take them.

        That is random, another one in each repetition and the same in each run, so that what drifts while a run goes on
        is no property of a point; but points with one blueprint stay together, whose testbed is made once.
        """
        for repetition in range(1, self.experiment.repeat + 1):
            if self.experiment.in_turn:
                points = self.points[::-1] if repetition % 2 == 0 else self.points
            else:
                points = self._shuffled(repetition)
            yield from ((repetition, point) for point in points)

    def _shuffled(self, repetition: int) -> list[Point]:
        chance = random.Random(f"{self.experiment.name} {repetition}")
        by_ground: dict[str, list[Point]] = {}
        for point in self.points:
            by_ground.setdefault(dumps(self.blueprint(point).as_json(), default=str), []).append(point)
        together = [*by_ground.values()]
        chance.shuffle(together)
        return [point for points in together for point in chance.sample(points, len(points))]

    def stands_on(self, reading: tuple[int, Point]) -> tuple[int, Blueprint]:
        """What a reading is taken on, and the seed for that: its repetition, where each has links of its own."""
        repetition, point = reading
        return (1 if self.experiment.in_turn else repetition), self.blueprint(point)

    def plan(self) -> dict[str, object]:
        """What two runs must agree in for one to go on where the other stopped."""
        directions = [way for each in self.combinations for link in each.topology.links for way in (link.down, link.up)]
        optional = {
            "axes": {key: list(values) for key, values in self.axes.items()},
            "hosts": dict(self.place.described),
            "files": dict(self.experiment.files),
            "traces": {str(way.trace): way.trace.digest for way in directions if way.trace},
        }
        return {
            "scenario": self.experiment.name,
            "options": self.experiment.model_dump(mode="json"),
            "links": self.profile.model_dump(mode="json", exclude_none=True),
            "kernel": platform.release(),
            "commit": commit(),
            "uncommitted": uncommitted(),
            **{name: described for name, described in optional.items() if described},
        }
