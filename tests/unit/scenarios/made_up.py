"""Readings that no machine gave, for the scenarios' verdicts and plots."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
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
    return scenario.judged(scenario.options(), topology(scenario), readings(scenario, rule))


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


def claims_test(
    scenario: Scenario[Any],
    good: Rule,
    *broken: tuple[Rule, *tuple[str, ...]],
    panels: int = 0,
    differing_too: bool = False,
) -> Callable[[Rule, list[str]], None]:
    """A test that ``good`` readings hold every claim, and one for each of the rows ``broken``: readings of that rule
    break these claims and no other. With ``differing_too`` those count as well that are known to differ. Good ones are
    drawn in so many ``panels``, unless that is 0.
    """
    rows = [pytest.param(good, [], id="good"), *(pytest.param(rule, claims, id=claims[0]) for rule, *claims in broken)]

    @pytest.mark.parametrize(("rule", "claims"), rows)
    def test(rule: Rule, claims: list[str]) -> None:
        assert [*failed(scenario, rule), *(differing(scenario, rule) if differing_too else ())] == claims
        if rule is good and panels:
            assert len(drawn(scenario, good).axes) == panels

    return test


def but(good: Rule, chosen: Mapping[str, str], **changed: float) -> Rule:
    """As ``good``, but for ``changed`` at the points that have all that is ``chosen``."""
    return lambda point: {**good(point), **(changed if chosen.items() <= point.items() else {})}
