"""What an experiment is: a question, the circumstances in which it is put, and what the answers are held against."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field

from experiments.study.blueprint import Blueprint, TestbedBlueprint
from experiments.study.metrics import Metric, draw, metrics_of
from experiments.study.readings import Point, Reading, Readings, Verdict
from experiments.testbed.appliance import BufferSize
from experiments.testbed.profile import DEFAULT, PROFILES
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import Settings
from tributary.settings.units import Duration, PositiveRate, Share, Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NEW, BENCHMARK = "new", "benchmark"
Repeat = Annotated[int, Field(ge=1, description="a whole number of repetitions, at least 1")]
Count = Annotated[int, Field(ge=1, description="a whole number, at least 1")]
Seconds = Annotated[float, Field(gt=0, description="a number of seconds above 0")]


def listed(value: object) -> object:
    """A text with commas as the tuple of its parts, and a number as one of itself; anything else as it is."""
    if isinstance(value, str):
        return tuple(value.split(","))
    return (value,) if isinstance(value, int | float) else value


def some_of(names: Collection[str], more: str = "", fits: Callable[[str], bool] = lambda _: False) -> BeforeValidator:
    """For a tuple of ``names``, which is read from a text with commas; ``more`` is what a part may be that ``fits``."""

    def read(value: object) -> object:
        parts = listed(value)
        if not isinstance(parts, tuple) or not all(part in names or fits(part) for part in map(str, parts)):
            raise ValueError(f"{', '.join(names)}{more}, with commas between them")
        return tuple(map(str, parts))

    return BeforeValidator(read)


Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], BeforeValidator(listed), Field(min_length=1)]
"""What --set takes with commas between them. Numbers need ``strict=False``, so that they may be text."""
Sizes = Several[Size]
Buffers = Several[BufferSize]
Durations = Several[Duration]
Shares = Several[Share]
Rates = Several[PositiveRate]
Counts = Annotated[
    Several[Annotated[int, Field(ge=1, strict=False)]],
    Field(description="whole numbers from 1 on with commas between them, such as '1,10'"),
]
Mtus = Annotated[
    Several[Annotated[int, Field(ge=576, le=9000, strict=False)]],
    Field(description="numbers from 576 to 9000 with commas between them, such as '1500,1000'"),
]


class Experiment(Settings):
    """One experiment. Its fields are its options: what --set can change of it beside its links.

    A benchmark is one without claims, that asks something and compares contenders: its paper is BENCHMARK.
    """

    name: ClassVar[str]
    """That of its file, with "bench-" in front in the folder of benchmarks, unless it says another one."""
    paper: ClassVar[str]
    """The figure or table that it reproduces, or else NEW."""
    claim: ClassVar[str]
    """What the paper says of it, or what a benchmark asks."""
    expected: ClassVar[str] = "Ratios: machines differ, ratios less so."
    """What should come out, and why."""
    about: ClassVar[str] = ""
    """Its file's docstring, which the catalogue adds: the topology, what is derived and what is expected of it."""
    quick: ClassVar[Mapping[str, int | float | str]] = {}
    """Options of the quick form."""
    quick_links: ClassVar[Sequence[str]] = ()
    """Changes of its own links in the quick form, such as ``wired.rate=50mbit``."""
    profile: ClassVar[Path] = DEFAULT
    """The file of its links: that of experiments/profiles/ which it says to run ``over``, if it says so."""
    over: ClassVar[str]
    any_links: ClassVar[bool]
    """Whether it runs over links of any profile that has ``least_links`` of them or more, or over its own alone, as one
    does that says what to measure on, unless it says otherwise.
    """
    least_links: ClassVar[int] = 1
    real_links: ClassVar[bool] = False
    """Whether it takes links as they are, on a testbed: then it runs on real machines as well."""
    in_turn: ClassVar[bool] = False
    """All repetitions are measured on what stands once, and every other one has the points the other way round."""
    at: ClassVar[Sequence[Point]] = ()
    """The circumstances to measure in, where they do not depend on options or links."""
    ground: ClassVar[Blueprint | None] = None
    """What to measure on, where that does not depend on anything; the links as they are if it is None."""
    own_axes: ClassVar[Mapping[str, str]] = {}
    """Axes of --sweep without an effect, since it sets the same before each reading, and its option for that."""
    quotes: ClassVar[Sequence[str]] = ()
    """Values of its readings that are quoted under their own names."""
    files: ClassVar[Mapping[str, str]] = {}
    """Of one in a file of somebody's own: that file and what it imports from beside it, each with its digest."""

    repeat: Repeat = 3

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        room, _, module = cls.__module__.rpartition(".")
        if "name" not in cls.__dict__:
            cls.name = f"{'bench-' * (room == 'experiments.bench')}{module.replace('_', '-')}"
        if "over" in cls.__dict__:
            cls.profile = PROFILES / cls.over
        # What a class says itself holds for those that are made of it.
        if "paper" not in cls.__dict__ and getattr(cls, "paper", NEW) in (BENCHMARK, NEW):
            cls.paper = BENCHMARK if cls.judge is Experiment.judge else NEW
        if "any_links" not in cls.__dict__ and (
            {"ground", "blueprint"} & cls.__dict__.keys() or not hasattr(cls, "any_links")
        ):
            cls.any_links = cls.ground is None and cls.blueprint is Experiment.blueprint

    def points(self, _topology: Topology) -> Sequence[Point]:
        """The circumstances to measure in."""
        return self.at

    def blueprint(self, profile: Profile, _point: Point) -> Blueprint:
        """What to measure a point on."""
        return self.ground or TestbedBlueprint(profile)

    @abstractmethod
    def measure(self, built: Any, point: Point, repetition: int) -> Reading:
        """One reading on what was ``built``; repetitions count from 1."""

    def judge(self, _topology: Topology, _readings: Readings) -> Iterable[Verdict]:
        """Its claims; raises KeyError if a reading is missing that one of them needs."""
        return ()

    def metrics(self, readings: Readings) -> Sequence[Metric]:
        """What is quoted of the readings beside that."""
        return metrics_of(readings, self.quotes)

    def draw(self, figure: "Figure", _topology: Topology, readings: Readings) -> None:
        """The plot, from the readings alone: of the metrics, where there is no other."""
        draw(figure, self.quoted(readings))

    def quoted(self, readings: Readings) -> list[Metric]:
        return [metric for metric in self.metrics(readings) if metric.numbers]
