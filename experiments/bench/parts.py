"""What of a benchmark is measured: all of it, or what a profile-and-improve loop needs again and again."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from experiments.bench.result import Result
from tributary.settings.failure import Exit, Failure


@dataclass(frozen=True)
class Selection:
    """The measurements and the peers that are wanted, by their names; ours takes part in any case."""

    measurements: frozenset[str]
    peers: frozenset[str]


@dataclass(frozen=True)
class Parts:
    """What can be selected of a benchmark, and ``measure``, which is called with what was: see Benchmark."""

    measurements: tuple[str, ...]
    peers: tuple[str, ...]
    measure: Callable[[Selection, bool, Callable[[str], None]], Result]

    def selected(self, measurements: Collection[str], peers: Collection[str]) -> Selection:
        """Those of these names, all of a kind that is empty; raises Failure (exit 64) for names that are not there."""
        _accept("--only", measurements, self.measurements)
        _accept("--peers", peers, self.peers)
        return Selection(frozenset(measurements or self.measurements), frozenset(peers or self.peers))


def names(text: str) -> tuple[str, ...]:
    """What stands between the commas of an argument."""
    return tuple(filter(None, text.split(",")))


def _accept(option: str, given: Collection[str], accepted: Collection[str]) -> None:
    if unknown := [name for name in given if name not in accepted]:
        raise Failure(Exit.USAGE, f"{option}: {', '.join(unknown)}: accepted: {', '.join(accepted)}")
