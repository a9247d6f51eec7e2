"""What an experiment is: a question, the circumstances in which it is put, and what the answers are held against."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import Field

from experiments.study.blueprint import Blueprint, TestbedBlueprint
from experiments.study.metrics import Metric, draw
from experiments.study.readings import Point, Reading, Readings, Verdict
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NEW, BENCHMARK = "new", "benchmark"
Repeat = Annotated[int, Field(ge=1, description="a whole number of repetitions, at least 1")]
Seconds = Annotated[float, Field(gt=0, description="a number of seconds above 0")]


class Options(Settings):
    """What --set can change of every scenario, beside its links."""

    repeat: Repeat = 3


Chosen = TypeVar("Chosen", bound=Options)


def one_blueprint(_options: Options, profile: Profile, _point: Point) -> TestbedBlueprint:
    """The same for every point: the links as they are."""
    return TestbedBlueprint(profile)


@dataclass(frozen=True)
class Scenario(Generic[Chosen]):
    """One experiment.

    ``paper`` is the figure or table that it reproduces, or else NEW; ``claim`` what the paper says of it; ``expected``
    what should come out, and why. ``points`` gives the circumstances to measure in, ``blueprint`` what to measure
    one of them on, ``measure`` one reading there (the last argument counts repetitions from 1), ``judge`` the verdicts,
    ``metrics`` what is quoted, and ``draw`` the plot, from the readings alone; without it the metrics are drawn. With
    ``any_links`` it runs over links of any profile that has ``least_links`` of them or more, without over its own
    alone. ``about`` is its module's docstring, which the catalogue adds: the topology, what is derived and what is
    expected of it.

    A benchmark is one without claims, that asks something and compares contenders: its paper is BENCHMARK.
    """

    name: str
    claim: str
    options: type[Chosen]
    quick: Mapping[str, int | float | str]
    points: Callable[[Chosen, Topology], Sequence[Point]]
    measure: Callable[[Any, Chosen, Point, int], Reading]
    about: str = ""
    paper: str = ""
    expected: str = "Ratios: machines differ, ratios less so."
    profile: Path = DEFAULT
    quick_links: Sequence[str] = ()
    """Changes of its own links in the quick form, such as ``wired.rate=50mbit``."""
    blueprint: Callable[[Chosen, Profile, Point], Blueprint] = one_blueprint
    judge: Callable[[Chosen, Topology, Readings], Iterable[Verdict]] | None = None
    metrics: Callable[[Readings], Sequence[Metric]] | None = None
    draw: "Callable[[Figure, Topology, Readings], None] | None" = None
    any_links: bool = True
    least_links: int = 1
    in_turn: bool = False
    """All repetitions are measured on what stands once, and every other one has the points the other way round."""
    axes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What it is swept over beside its own points (experiments/study/axes.py)."""
    real_links: bool = False
    """Whether it takes links as they are, on a testbed: then it runs on real machines as well."""
    hosts: Mapping[str, object] = field(default_factory=dict)
    """The real machines that it runs on (experiments/study/hosts.py); none: namespaces of this one."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Of one in a file of somebody's own: that file and what it imports from beside it, each with its digest."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "paper", self.paper or (NEW if self.judge else BENCHMARK))

    def judged(self, options: Chosen, topology: Topology, readings: Readings) -> list[Verdict]:
        """The verdicts; raises KeyError if a reading is missing that one of them needs."""
        return list(self.judge(options, topology, readings)) if self.judge else []

    def quoted(self, readings: Readings) -> list[Metric]:
        """The metrics that have a number."""
        return [metric for metric in (self.metrics(readings) if self.metrics else ()) if metric.numbers]

    def drawn(self, figure: "Figure", topology: Topology, readings: Readings) -> None:
        """Draw the plot, or else the metrics."""
        if self.draw:
            self.draw(figure, topology, readings)
        else:
            draw(figure, self.quoted(readings))
