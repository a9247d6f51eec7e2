"""What experiments stand on whose subject is a program's own time, or one link: an origin, and no converter."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.study.blueprint import Ground, Standing
from experiments.testbed import native
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import ORIGIN, Cabling, laid_out
from experiments.testbed.tolerance import TOLERANCE
from experiments.testbed.topology import SERVER, Profile


@dataclass(frozen=True)
class Cabled(Standing):
    """The nodes, cabled, with the programs that make traffic on them."""

    cabling: Cabling


@dataclass(frozen=True)
class Wired(Standing):
    """The nodes, joined by cables or by links."""

    testbed: Testbed


@dataclass(frozen=True)
class Cables:
    """Plain cables, so that nothing else takes any time."""

    def as_json(self) -> dict[str, object]:
        return {"cables": "veth"}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Cabled]:  # noqa: ARG002
        """Client, gateway and server, which has an origin, for the length of the block."""
        with laid_out(native.build(), name) as cabling:
            yield Cabled(cabling)


def linked(profile: Profile, role: str = SERVER, listens: str = ORIGIN) -> Ground[Wired]:
    """A testbed with an origin on one of its nodes. What links do is seen by what is measured: they are not checked."""

    @contextmanager
    def stands(name: str, seed: int, _tolerance: float) -> Iterator[Wired]:
        origin = [str(native.build().load), "origin", "--listen", listens]
        with (
            standing(name, profile, seed=seed) as testbed,
            testbed.node(role).start("origin", origin).wait_until_ready(),
        ):
            yield Wired(testbed)

    return Ground({"links": profile.model_dump(mode="json", exclude_none=True)}, stands)
