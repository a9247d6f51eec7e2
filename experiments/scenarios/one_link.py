"""What experiments stand on whose subject is one link: the testbed with an origin on the server, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.scenarios.cabled import Unlinked
from experiments.testbed import native
from experiments.testbed.build import Testbed, standing
from experiments.testbed.tolerance import TOLERANCE
from experiments.testbed.topology import Profile, Topology

ORIGIN = f"{Topology.SERVER4}:8080"


@dataclass(frozen=True)
class Linked(Unlinked):
    """The testbed, and an origin at ORIGIN."""

    testbed: Testbed


@dataclass(frozen=True)
class OneLink:
    """The same before it stands. What the link does is seen by what is measured: it is not checked beforehand."""

    profile: Profile

    def as_json(self) -> dict[str, object]:
        return {"links": self.profile.model_dump(mode="json", exclude_none=True)}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Linked]:  # noqa: ARG002
        """The testbed for the length of the block; ``seed`` is for what the link loses."""
        origin = [str(native.build().load), "origin", "--listen", ORIGIN]
        with (
            standing(name, self.profile, seed=seed) as testbed,
            testbed.server.start("origin", origin).wait_until_ready(),
        ):
            yield Linked(testbed)
