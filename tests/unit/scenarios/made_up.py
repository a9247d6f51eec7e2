"""Readings that no machine gave, for the scenarios' verdicts and plots."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from experiments.study.readings import Point, Reading, Readings, Verdict
from experiments.study.scenario import Scenario
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import load

Rule = Callable[[Point], Mapping[str, float]]
"""The values of a reading at a point."""

SERIES = {"wired": [(0.1, 90.0), (0.2, 95.0)]}


def topology(scenario: Scenario[Any]) -> Topology:
    """The links that ``scenario`` has unless told otherwise."""
    return Topology.of(load(scenario.profile, Profile))


def readings(scenario: Scenario[Any], rule: Rule) -> Readings:
    """Three repetitions at every point, as ``rule`` has it."""
    points = scenario.points(scenario.options(), topology(scenario))
    return Readings(Reading(point, n, rule(point), SERIES) for point in points for n in (1, 2, 3))


def judged(scenario: Scenario[Any], rule: Rule) -> Sequence[Verdict]:
    """What ``scenario`` says of them."""
    return scenario.judge(scenario.options(), topology(scenario), readings(scenario, rule))


def failed(scenario: Scenario[Any], rule: Rule) -> list[str]:
    """The claims that do not hold, but for those of a paper that are known to differ here."""
    return [verdict.claim for verdict in judged(scenario, rule) if not (verdict.holds or verdict.differs)]


def differing(scenario: Scenario[Any], rule: Rule) -> list[str]:
    """The claims of a paper that do not hold here, for a reason that is known."""
    return [verdict.claim for verdict in judged(scenario, rule) if verdict.differs]


def quoted(scenario: Scenario[Any], rule: Rule) -> dict[str, float]:
    """The metrics, each by its name."""
    return {metric.name: metric.median for metric in scenario.quoted(readings(scenario, rule))}


def drawn(scenario: Scenario[Any], rule: Rule) -> Figure:
    """The plot."""
    figure = Figure()
    scenario.drawn(figure, topology(scenario), readings(scenario, rule))
    return figure


def but(good: Rule, chosen: Mapping[str, str], **changed: float) -> Rule:
    """As ``good``, but for ``changed`` at the points that have all that is ``chosen``."""
    return lambda point: {**good(point), **(changed if chosen.items() <= point.items() else {})}
