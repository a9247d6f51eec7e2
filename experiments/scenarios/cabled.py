"""What experiments stand on whose subject is a program's own time: plain cables, so that nothing else takes any."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import Cabling, laid_out
from experiments.testbed.selfcheck import Reading as LinkReading
from experiments.testbed.tolerance import TOLERANCE


class Unlinked:
    """What stands on cables: there is no link to measure."""

    @property
    def links(self) -> list[LinkReading]:
        """None."""
        return []

    @property
    def emulation(self) -> str:
        """What emulates the links: nothing."""
        return "cables"


@dataclass(frozen=True)
class Cabled(Unlinked):
    """The nodes, cabled, with the programs that make traffic on them."""

    cabling: Cabling


@dataclass(frozen=True)
class Wired(Unlinked):
    """The nodes, cabled."""

    testbed: Testbed


@dataclass(frozen=True)
class Cables:
    """The same before it stands."""

    def as_json(self) -> dict[str, object]:
        return {"cables": "veth"}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Cabled]:  # noqa: ARG002
        """Client, gateway and server, which has an origin, for the length of the block."""
        with laid_out(native.build(), name) as cabling:
            yield Cabled(cabling)
