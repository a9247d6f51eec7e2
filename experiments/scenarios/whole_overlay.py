"""What experiments stand on whose subject is a whole overlay: nodes in a mesh, with etcd, a controller, agents."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from experiments.overlay.mesh import standing_mesh
from experiments.overlay.running import Running, running
from experiments.study.blueprint import Ground, Standing


def whole_overlay(
    nodes: Sequence[str],
    round_trip_ms: Sequence[Sequence[float]],
    rounds: int = 5,
    by_port: Mapping[int, str] | None = None,
) -> Ground[Running]:
    """An overlay with all its tables, whose first node is the ingress, and the last one the egress.

    ``round_trip_ms`` is from each node to each, in milliseconds; chains are for transfers of so many ``rounds``;
    ``by_port`` are ports of the server with another node as their egress. What the links do is seen by what is
    measured: they are not checked beforehand.
    """

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Running]]:
        with standing_mesh(name, nodes, round_trip_ms) as mesh, running(mesh, rounds, by_port) as overlay:
            yield Standing(overlay, emulation="netem" if mesh.netem else "link-emulator")

    described = {"nodes": nodes, "round_trip_ms": round_trip_ms, "rounds": rounds}
    return Ground(described | ({"by_port": dict(by_port)} if by_port else {}), stands)
