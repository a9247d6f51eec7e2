"""What experiments stand on whose subject is a whole overlay: nodes in a mesh, with etcd, a controller, agents."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.overlay.mesh import standing_mesh
from experiments.overlay.running import Running, running
from experiments.scenarios.cabled import Unlinked
from experiments.testbed.tolerance import TOLERANCE


@dataclass(frozen=True)
class StandingOverlay(Unlinked):
    """An overlay at work."""

    overlay: Running

    @property
    def emulation(self) -> str:
        return "netem" if self.overlay.mesh.netem else "link-emulator"


@dataclass(frozen=True)
class WholeOverlay:
    """The same before it stands: the first node is the ingress, the last one the egress.

    ``round_trip_ms`` is from each node to each, in milliseconds; chains are for transfers of so many ``rounds``;
    ``by_port`` are ports of the server with another node as their egress. What the links do is seen by what is
    measured: they are not checked beforehand.
    """

    nodes: Sequence[str]
    round_trip_ms: Sequence[Sequence[float]]
    rounds: int = 5
    by_port: Mapping[int, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        described = {"nodes": self.nodes, "round_trip_ms": self.round_trip_ms, "rounds": self.rounds}
        return described | ({"by_port": dict(self.by_port)} if self.by_port else {})

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[StandingOverlay]:  # noqa: ARG002
        """The overlay for the length of the block, with all its tables."""
        with (
            standing_mesh(name, self.nodes, self.round_trip_ms) as mesh,
            running(mesh, self.rounds, self.by_port) as overlay,
        ):
            yield StandingOverlay(overlay)
