"""How soon after its death no ingress's converter goes by way of a node any more.

A whole overlay of four nodes, as ``overlay up`` makes it. What runs on the node that the best chain passes is killed;
the time runs until no route that the ingress's agent writes for its converter has that node in it. Until
then, a connection that tries such a chain goes on by the next one.
"""

from experiments.overlay.running import Running, whole_overlay
from experiments.study.experiment import Experiment, Repeat
from experiments.study.readings import Point, Reading
from experiments.testbed.node import wait_until
from tributary.settings.errors import CommandError, Exit

_INGRESS, _DIES, _OTHER, _EGRESS = _NODES = ("ingress", "dies", "other", "egress")
# Round-trip times in milliseconds: the way through the node that dies is the best one for five rounds.
_DELAYS = ((0, 20, 24, 60), (20, 0, 30, 20), (24, 30, 0, 24), (60, 20, 24, 0))
_LONGEST = 60.0


class OverlayNodeOut(Experiment):
    """Each repetition has its own overlay. Of ``node_out_s`` a lease of two seconds, and etcd's looks at leases every
    half of a second, are most.
    """

    claim = "How soon after its death is a node on no chain any more?"
    quick = {"repeat": 1}
    at = [{"nodes": str(len(_NODES))}]
    ground = whole_overlay(_NODES, _DELAYS)
    quotes = ("node_out_s",)

    repeat: Repeat = 5

    def measure(self, overlay: Running, point: Point, repetition: int) -> Reading:
        """``node_out_s``; raises CommandError (exit 1) if the node was on no chain, or stays on one."""
        address = f"{overlay.mesh.address(_DIES)}:"
        if not _passed(overlay, address):
            raise CommandError(Exit.WRONG_RESULT, f"no chain passes {_DIES}: {' | '.join(overlay.routes(_INGRESS))}")
        with overlay.killed(f"{_DIES}.agent", f"{_DIES}.converter"):
            on_a_chain, wrong = f"{_DIES} is on a chain", Exit.WRONG_RESULT
            taken = wait_until(lambda: not _passed(overlay, address), _LONGEST, on_a_chain, wrong, every=0.01)
        return Reading(point, repetition, {"node_out_s": taken})


def _passed(overlay: Running, address: str) -> bool:
    return any(address in route for route in overlay.routes(_INGRESS))
