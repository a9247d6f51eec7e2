"""What a check is, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .rig import Rig


class Level(StrEnum):
    """What the RFC asks. Its sentences that state behaviour without a key word count as MUST."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


class Unmet(Exception):
    """The converter did something else than the RFC asks."""

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected {expected}; came {came}")
        self.expected = expected
        self.came = came


class Skip(Exception):
    """A check cannot be made here; the text says what is missing."""


@dataclass(frozen=True)
class Check:
    """One demand of the RFC. `run`, called with a Rig and all `given`, returns what came, or raises Unmet or Skip."""

    name: str
    clause: str
    level: Level
    asks: str
    run: Callable[..., str]
    given: Sequence[Any] = ()


@dataclass(frozen=True)
class Result:
    """How one check ended. `bytes` has the Convert messages in hexadecimal, `>` to the converter, `<` from it."""

    name: str
    clause: str
    level: Level
    asks: str
    result: Outcome
    expected: str
    came: str
    seconds: float
    bytes: list[str] = field(default_factory=list)


def require(holds: bool, expected: str, came: object) -> None:
    """Raises Unmet unless the condition holds."""
    if not holds:
        raise Unmet(expected, str(came))


class Checks(list[Check]):
    """The checks of one file, in order."""

    def add(self, clause: str, level: Level = Level.MUST) -> "Callable[[Callable[[Rig], str]], Callable[[Rig], str]]":
        """A decorator that makes a function a check, with its name in dashes; its docstring is what it asks."""

        def register(run: "Callable[[Rig], str]") -> "Callable[[Rig], str]":
            self.append(Check(run.__name__.replace("_", "-"), clause, level, run.__doc__ or "", run))
            return run

        return register

    def add_each(self, run: Callable[..., str], demands: "Mapping[str, tuple[str, str, *tuple[Any, ...]]]") -> None:
        """Checks that run alike: by the name of each its clause, what it asks, and what ``run`` gets after the rig."""
        for name, (clause, asks, *given) in demands.items():
            self.append(Check(name, clause, Level.MUST, asks, run, given))
