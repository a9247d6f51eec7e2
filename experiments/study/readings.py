"""What an experiment measured, and what follows from it. Pure: no clock, no network, no file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Self

Point = Mapping[str, str]
"""One set of circumstances, such as {"converter": "native", "family": "ipv4"}."""


STOLEN = "stolen_percent"
"""The value of each reading that says what part of the processors' time a hypervisor took meanwhile."""


def name_of(point: Point) -> str:
    """``converter=native,family=ipv4``: unique among the points of a scenario."""
    return ",".join(f"{key}={value}" for key, value in point.items())


@dataclass(frozen=True)
class Reading:
    """What one repetition at one point gave.

    ``values`` have their unit in the name; ``series`` are (seconds, Mbit/s) of each path. ``samples`` are the single
    measurements that a value of the same name is the median of, where they are kept.
    """

    point: Point
    repetition: int
    values: Mapping[str, float]
    series: Mapping[str, Sequence[tuple[float, float]]]
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From what as_json() gave."""
        series = {path: [(at, rate) for at, rate in rates] for path, rates in document["series"].items()}
        samples = document.get("samples", {})
        return cls(document["point"], document["repetition"], document["values"], series, samples)

    def as_json(self) -> dict[str, object]:
        """For a file."""
        return {
            "point": dict(self.point),
            "repetition": self.repetition,
            "values": dict(self.values),
            "series": {path: list(rates) for path, rates in self.series.items()},
            **({"samples": {name: list(numbers) for name, numbers in self.samples.items()}} if self.samples else {}),
        }


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
        """The same in another unit."""
        return Estimate(self.mean * factor, self.margin * factor)

    def __str__(self) -> str:
        digits = 1 if self.mean >= 10 else 2
        return f"{self.mean:.{digits}f} ± {self.margin:.{digits}f}" if self.margin else f"{self.mean:.{digits}f}"


class Readings:
    """All readings of a run, or those at some points of it."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = list(readings)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._readings)

    def at(self, **circumstances: str) -> "Readings":
        """Those whose point has all of these ``circumstances``."""
        wanted = circumstances.items()
        return Readings(reading for reading in self if all(reading.point.get(key) == value for key, value in wanted))

    def values(self, name: str) -> list[float]:
        """The value ``name`` of every reading that has it."""
        return [reading.values[name] for reading in self if name in reading.values]

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


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds: what was measured, and what it was held against, both as text with units.

    ``because`` is what explains it where it does not hold, from the same readings; empty if they tell nothing of it.
    """

    claim: str
    measured: str
    bound: str
    holds: bool
    because: str = ""

    def as_json(self) -> dict[str, object]:
        """For a file, or another program."""
        return asdict(self)


def at_most(claim: str, measured: Estimate, bound: float, unit: str) -> Verdict:
    """Holds if the mean does not exceed ``bound``."""
    return Verdict(claim, f"{measured} {unit}", f"at most {bound:.1f} {unit}", measured.mean <= bound)


def at_least(claim: str, measured: Estimate, bound: float, unit: str, because: str = "") -> Verdict:
    """Holds if the mean reaches ``bound``; ``because`` is what explains it if not."""
    holds = measured.mean >= bound
    return Verdict(claim, f"{measured} {unit}", f"at least {bound:.1f} {unit}", holds, "" if holds else because)
