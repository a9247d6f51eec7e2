"""Readings that no machine gave, for the experiments' verdicts and plots."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest
from matplotlib.figure import Figure

from experiments.study.blueprint import TestbedBlueprint
from experiments.study.experiment import Experiment
from experiments.study.plot import resize
from experiments.study.readings import Point, Reading, Readings, Verdict
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import load

Rule = Callable[[Point], Mapping[str, float]]
"""The values of a reading at a point."""

SERIES = {"wired": [(0.1, 90.0), (0.2, 95.0)]}


@cache
def profile(experiment: type[Experiment]) -> Profile:
    return load(experiment.profile, Profile)


def topology(experiment: type[Experiment]) -> Topology:
    """The links that ``experiment`` has unless told otherwise."""
    return Topology.of(profile(experiment))


def ground_of(experiment: type[Experiment], point: Point) -> TestbedBlueprint:
    """What is made of these for ``point``."""
    blueprint = experiment().blueprint(profile(experiment), point)
    assert isinstance(blueprint, TestbedBlueprint)
    return blueprint


def readings(experiment: type[Experiment], rule: Rule) -> Readings:
    """Three repetitions at every point, as ``rule`` has it."""
    points = experiment().points(topology(experiment))
    return Readings(Reading(point, n, rule(point), SERIES) for point in points for n in (1, 2, 3))


def judged(experiment: type[Experiment], rule: Rule) -> Sequence[Verdict]:
    """What ``experiment`` says of them."""
    return list(experiment().judge(topology(experiment), readings(experiment, rule)))


def failed(experiment: type[Experiment], rule: Rule) -> list[str]:
    """The claims that do not hold, but for those of a paper that are known to differ here."""
    return [verdict.claim for verdict in judged(experiment, rule) if not (verdict.holds or verdict.differs)]


def differing(experiment: type[Experiment], rule: Rule) -> list[str]:
    """The claims of a paper that do not hold here, for a reason that is known."""
    return [verdict.claim for verdict in judged(experiment, rule) if verdict.differs]


def quoted(experiment: type[Experiment], rule: Rule) -> dict[str, float]:
    """The metrics, each by its name."""
    return {metric.name: metric.median for metric in experiment().quoted(readings(experiment, rule))}


def drawn(experiment: type[Experiment], rule: Rule) -> Figure:
    """The plot, as one of two in a figure, which is twice as high."""
    alone, figure = Figure(), Figure()
    upper = figure.subfigures(2, 1, squeeze=False)[0, 0]
    resize(upper, *figure.get_size_inches())
    for each in (alone, upper):
        experiment().draw(each, topology(experiment), readings(experiment, rule))
    width, height = alone.get_size_inches()
    assert tuple(figure.get_size_inches()) == (width, 2 * height)
    return alone


Broken = tuple[Rule | None, Mapping[str, str], Mapping[str, float], tuple[str, ...]]


def at(where: str, *claims: str, **changed: float) -> Broken:
    """What breaks ``claims``: values that are ``changed`` at points with all of ``where``, as in "by=squid"."""
    return None, dict(each.split("=") for each in where.split(",")), changed, claims


def by(rule: Rule, *claims: str) -> Broken:
    """Readings of another ``rule`` break ``claims``."""
    return rule, {}, {}, claims


def claims_test(
    experiment: type[Experiment], good: Rule, *broken: Broken, panels: int = 0, differing_too: bool = False
) -> Callable[[Rule, list[str]], None]:
    """A test that ``good`` readings hold every claim, and one for each of what is ``broken``, by which these claims
    fail and no other. With ``differing_too`` those count as well that are known to differ. Good ones are drawn in so
    many ``panels``, unless that is 0.
    """
    rows = [pytest.param(good, [], id="good")]
    for rule, where, changed, claims in broken:
        rows.append(pytest.param(rule or but(good, where, **changed), [*claims], id=claims[0]))

    @pytest.mark.parametrize(("rule", "claims"), rows)
    def test(rule: Rule, claims: list[str]) -> None:
        assert [*failed(experiment, rule), *(differing(experiment, rule) if differing_too else ())] == claims
        if rule is good and panels:
            assert len(drawn(experiment, good).axes) == panels

    return test


def but(good: Rule, chosen: Mapping[str, str], **changed: float) -> Rule:
    """As ``good``, but for ``changed`` at the points that have all that is ``chosen``."""
    return lambda point: {**good(point), **(changed if chosen.items() <= point.items() else {})}
