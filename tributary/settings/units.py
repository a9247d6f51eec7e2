"""Numbers with units: rates, durations, sizes, shares.

A bare number is refused as ambiguous. The notation is that of tc(8):
``20mbit``, ``25ms``, ``50MB``, ``0.5%``.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import ClassVar, Self, TypeVar

from tributary.settings.values import Text, require

Q = TypeVar("Q", bound="Quantity")
_NUMBER_AND_UNIT = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)([A-Za-z%]+)", re.ASCII)
"""Of more digits Python makes no number, or none that goes with fractions."""


@dataclass(frozen=True, order=True)
class Quantity(Text):
    """A whole number of base units within bounds, read from and written as text with a unit."""

    amount: int

    UNITS: ClassVar[dict[str, int]]
    ACCEPTED: ClassVar[str]
    LEAST: ClassVar[int] = 0
    MOST: ClassVar[float] = inf

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read ``text``; raises ValueError that says what is accepted."""
        match = _NUMBER_AND_UNIT.fullmatch(text) if isinstance(text, str) else None
        if match is None or match[2] not in cls.UNITS:
            raise ValueError(cls.ACCEPTED)
        amount = Fraction(match[1]) * cls.UNITS[match[2]]
        if amount.denominator != 1 or not cls.LEAST <= amount <= cls.MOST:
            raise ValueError(cls.ACCEPTED)
        return cls(int(amount))

    @classmethod
    def argument(cls, text: str) -> Self:
        """The same as the ``type`` of an argument of argparse, whose error shows what is accepted."""
        try:
            return cls.parse(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text}: accepted: {error}") from error

    def __str__(self) -> str:
        unit, size = max(
            ((unit, size) for unit, size in self.UNITS.items() if self.amount % size == 0), key=lambda item: item[1]
        )
        return f"{self.amount // size}{unit}"


def within(least: Q, most: Q | None = None) -> Callable[[object], Q]:
    """A reader of amounts from ``least`` to ``most``, which raises ValueError for others."""

    def read(value: object) -> Q:
        found = value if isinstance(value, type(least)) else type(least).parse(value)
        require(least <= found and (most is None or found <= most))
        return found

    return read


class Rate(Quantity):
    """Bits per second."""

    UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
    ACCEPTED = "a rate with its unit (bit, kbit, mbit, gbit), such as '5mbit'"


class PositiveRate(Rate):
    """A rate above zero, in bits per second."""

    ACCEPTED = "a rate above zero with its unit (bit, kbit, mbit, gbit), such as '5mbit'"
    LEAST = 1


class Duration(Quantity):
    """Microseconds."""

    UNITS = {"us": 1, "ms": 10**3, "s": 10**6}
    ACCEPTED = "a time with its unit (us, ms, s), such as '25ms'"

    @property
    def seconds(self) -> float:
        return self.amount / 10**6


class Size(Quantity):
    """Bytes."""

    UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    ACCEPTED = "a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB), such as '50MB'"


class Share(Quantity):
    """Millionths of a whole, written in percent; at most 100 %."""

    UNITS = {"%": 10**4}
    ACCEPTED = "a share from '0%' to '100%'"
    MOST = 10**6

    def __str__(self) -> str:
        return f"{self.amount / 10**4:g}%"

    @property
    def fraction(self) -> float:
        return self.amount / 10**6
