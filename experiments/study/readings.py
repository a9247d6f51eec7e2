"""What an experiment measured, and what follows from it. Pure: no clock, no network, no file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from itertools import product
from math import sqrt
from operator import sub, truediv
from statistics import fmean, stdev
from typing import Any, Self

from experiments.record import Sending

Point = Mapping[str, str]
"""One set of circumstances, such as {"converter": "native", "family": "ipv4"}."""


def every(**axes: Iterable[object]) -> list[Point]:
    """A point at each combination of the values of ``axes``, the last of which changes first."""
    return [dict(zip(axes, map(str, values), strict=True)) for values in product(*axes.values())]


STOLEN = "stolen_percent"
"""The value of each reading that says what part of the processors' time a hypervisor took meanwhile."""


def name_of(point: Point) -> str:
    """``converter=native,family=ipv4``: unique among the points of a scenario."""
    return ",".join(f"{key}={value}" for key, value in point.items())


_LONGEST_NAME = 200
"""Bytes: a file's may have 255, its suffix among them."""


def file_name(point: Point, repetition: int) -> str:
    """``converter=native,family=ipv4-01``: of the files of a reading, without their suffix; a path in it is quoted, and
    of one that is too long a digest takes the end's place.
    """
    name = name_of(point).replace("/", "%2F")
    if len(name.encode()) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}...{sha256(name.encode()).hexdigest()[:16]}"
    return f"{name}-{repetition:02}"


@dataclass(frozen=True)
class Reading:
    """What one repetition at one point gave.

    ``values`` have their unit in the name; ``series`` are (seconds, Mbit/s) of each path. ``samples`` are the single
    measurements that a value of the same name is the median of, where they are kept. ``sending`` is what the sender of
    each MPTCP subflow knew over time (experiments/record.py).
    """

    point: Point
    repetition: int
    values: Mapping[str, float]
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sending: Sending = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        series = {path: [(at, rate) for at, rate in rates] for path, rates in document["series"].items()}
        samples = document.get("samples", {})
        sending = {name: [tuple(each) for each in known] for name, known in document.get("sending", {}).items()}
        return cls(document["point"], document["repetition"], document["values"], series, samples, sending)

    def as_json(self) -> dict[str, Any]:
        kept = asdict(self)
        return {name: each for name, each in kept.items() if each or name not in ("samples", "sending")}


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % confidence interval; ``margin`` is half of that, and 0 for a single number."""

    mean: float
    margin: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """The estimate from at least one number."""
        if len(numbers) == 1:
            return cls(numbers[0], 0.0)
        from scipy.stats import t as student  # here, since it takes more than a second, and few commands estimate

        # Two-sided, hence 2.5 % at each end.
        quantile = float(student.ppf(0.975, len(numbers) - 1))
        return cls(fmean(numbers), quantile * stdev(numbers) / sqrt(len(numbers)))

    def scaled(self, factor: float) -> "Estimate":
        return Estimate(self.mean * factor, self.margin * factor)

    def reaches(self, bound: float) -> "Decision":
        """Whether it is ``bound`` or more: undecided while the interval has numbers on both sides of that."""
        if self.mean - self.margin >= bound:
            return Decision.HOLDS
        return Decision.FAILS if self.mean + self.margin < bound else Decision.UNDECIDED

    def keeps_to(self, bound: float) -> "Decision":
        """Whether it is ``bound`` or less, likewise."""
        return Estimate(-self.mean, self.margin).reaches(-bound)

    def __str__(self) -> str:
        digits = 1 if abs(self.mean) >= 10 else 2
        return f"{self.mean:.{digits}f} ± {self.margin:.{digits}f}" if self.margin else f"{self.mean:.{digits}f}"


@dataclass(frozen=True)
class Repeated:
    """A number of each repetition, by the repetition: what is compared with another one of the same repetition.

    What stands in one repetition was measured within minutes, on the same links, with the same seed: a machine that
    others slow down slows both.
    """

    numbers: Mapping[int, float]

    @classmethod
    def of(cls, how: Callable[..., float], *each: "Repeated") -> Self:
        """``how`` makes one number of those of ``each``, in every repetition that all of them have."""
        common = [number for number in each[0].numbers if all(number in other.numbers for other in each)]
        return cls({number: how(*(other.numbers[number] for other in each)) for number in common})

    @classmethod
    def of_all(cls, how: Callable[[Sequence[float]], float], each: Iterable["Repeated"]) -> Self:
        """``how``, such as max, makes one number of all of ``each``, likewise."""
        return cls.of(lambda *numbers: how(numbers), *each)

    def __mul__(self, factor: float) -> "Repeated":
        return Repeated({repetition: factor * number for repetition, number in self.numbers.items()})

    def __truediv__(self, other: "Repeated") -> "Repeated":
        return Repeated.of(truediv, self, other)

    def __add__(self, more: float) -> "Repeated":
        return Repeated({repetition: number + more for repetition, number in self.numbers.items()})

    def __sub__(self, other: "Repeated") -> "Repeated":
        return Repeated.of(sub, self, other)

    @property
    def estimate(self) -> Estimate:
        """The mean, with its interval; raises KeyError if there is no number."""
        if not self.numbers:
            raise KeyError("no repetition has both")
        return Estimate.of([*self.numbers.values()])


class Readings(tuple[Reading, ...]):
    """All readings of a run, or those at some points of it."""

    __slots__ = ()

    def at(self, **circumstances: str) -> "Readings":
        """Those whose point has all of these ``circumstances``."""
        wanted = circumstances.items()
        return Readings(reading for reading in self if all(reading.point.get(key) == value for key, value in wanted))

    def over(self, axis: str, number: Callable[[str], float] = float) -> dict[float, "Readings"]:
        """Those at each value of an ``axis`` of the points, by the ``number`` that it is, the least first."""
        texts = {reading.point[axis] for reading in self if axis in reading.point}
        return {number(text): self.at(**{axis: text}) for text in sorted(texts, key=number)}

    def values(self, name: str) -> list[float]:
        return [reading.values[name] for reading in self if name in reading.values]

    def repeated(self, name: str) -> Repeated:
        """The value ``name`` of each repetition that has it; of readings at one point."""
        return self.each(lambda reading: reading.values.get(name))

    def each(self, number_of: Callable[[Reading], float | None]) -> Repeated:
        """What ``number_of`` makes of each repetition's reading, unless it is None; of readings at one point."""
        found = ((reading.repetition, number_of(reading)) for reading in self)
        return Repeated({repetition: number for repetition, number in found if number is not None})

    def samples(self, name: str) -> list[float]:
        """Every single measurement of the value ``name``: where none were kept, the value itself."""
        return [
            number
            for reading in self
            if name in reading.values
            for number in reading.samples.get(name, (reading.values[name],))
        ]

    def estimate(self, name: str) -> Estimate:
        """The mean of the value ``name``, with its interval; raises KeyError if no reading has it."""
        values = self.values(name)
        if not values:
            raise KeyError(name)
        return Estimate.of(values)


class Decision(StrEnum):
    """Of a claim. A single reading has no interval, and decides by itself: several may leave it undecided."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    DIFFERS = "differs"
    """It does not hold here, and it is known why: nothing is wrong with what was measured."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds: what was measured, and what it was held against, both as text with units.

    ``because`` is what explains it where it does not hold; empty if nothing is known of it.
    """

    claim: str
    measured: str
    bound: str
    decision: Decision
    because: str = ""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From what as_json() gave; raises ValueError for anything else."""
        try:
            return cls(**{**document, "decision": Decision(document["decision"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"no verdict: {document}") from error

    @property
    def holds(self) -> bool:
        return self.decision is Decision.HOLDS

    @property
    def differs(self) -> bool:
        """Whether it is decided that it does not, for a reason that is known."""
        return self.decision is Decision.DIFFERS

    def or_differs(self, because: str) -> "Verdict":
        """The same of a paper's claim that is known not to hold here: if it does not, it differs, and ``because``."""
        fails = self.decision is Decision.FAILS
        return replace(self, decision=Decision.DIFFERS, because=because) if fails else self

    def as_json(self) -> dict[str, object]:
        return asdict(self)


Measured = Estimate | Repeated | float


def at_most(claim: str, measured: Measured, bound: float | Repeated, unit: str) -> Verdict:
    """Holds if the mean does not exceed ``bound``, with its whole interval.

    What is repeated may have a bound of each repetition: then the interval of their differences decides.
    """
    return _compared(claim, measured, "at most", bound, unit, Estimate.keeps_to)


def at_least(claim: str, measured: Measured, bound: float | Repeated, unit: str, because: str = "") -> Verdict:
    """Holds if the mean reaches ``bound``, likewise; ``because`` is what explains it if not."""
    verdict = _compared(claim, measured, "at least", bound, unit, Estimate.reaches)
    return verdict if verdict.holds else replace(verdict, because=because)


def _compared(
    claim: str,
    measured: Measured,
    how: str,
    bound: float | Repeated,
    unit: str,
    decide: Callable[[Estimate, float], Decision],
) -> Verdict:
    estimate, beside = _estimate(measured), ""
    if isinstance(bound, Repeated):
        assert isinstance(measured, Repeated), "a bound of each repetition is for what is repeated"
        difference, bound = (measured - bound).estimate, bound.estimate.mean
        decision = decide(difference, 0)
        beside = f" ({difference} {unit} from the bound, by repetition)" if difference.margin else ""
    else:
        decision = decide(estimate, bound)
    return Verdict(claim, f"{estimate} {unit}{beside}", f"{how} {bound:.1f} {unit}", decision)


def _estimate(measured: Measured) -> Estimate:
    if isinstance(measured, Repeated):
        return measured.estimate
    return measured if isinstance(measured, Estimate) else Estimate(measured, 0)


def within(claim: str, measured: Measured, least: float, most: float, unit: str) -> Verdict:
    """Holds if the mean is neither below ``least`` nor above ``most``, with its whole interval."""
    estimate = _estimate(measured)
    decision = together((estimate.reaches(least), estimate.keeps_to(most)))
    return Verdict(claim, f"{estimate} {unit}", f"{least:.2f} to {most:.2f} {unit}", decision)


def together(decisions: Iterable[Decision]) -> Decision:
    """Of a claim that holds if each of some does."""
    found = set(decisions)
    return next((each for each in (Decision.FAILS, Decision.UNDECIDED) if each in found), Decision.HOLDS)


def exactly(claim: str, measured: str, bound: str) -> Verdict:
    """Holds if both say the same."""
    return Verdict(claim, measured, bound, Decision.HOLDS if measured == bound else Decision.FAILS)


def worst(claim: str, numbers: Sequence[float], most: float, unit: str) -> Verdict:
    """Holds if not one of ``numbers`` exceeds ``most``: for what must never be, and not on average."""
    return at_most(claim, max(numbers), most, unit)
