"""A hand-off of whose parts one is away for a while."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from experiments.handoff.contest import rules, wait_until_handed_over
from experiments.handoff.network import BACK_ENDS, standing_network
from experiments.handoff.running import Running
from experiments.handoff.shaping import shape
from experiments.scenarios.cabled import Unlinked
from experiments.testbed.build import reserved
from experiments.testbed.tolerance import TOLERANCE
from tributary.settings.units import Rate

FAILING = BACK_ENDS[0]
"""The back end that fails, and that has the object."""
OBJECT = "object"


@dataclass(frozen=True)
class Served(Running, Unlinked):
    """All parts at work, and a client."""

    def is_at_back_end(self) -> bool:
        """Whether a client's connection is at the back end that fails."""
        which = ("state", "connected", "exclude", "time-wait", "sport", "=", ":7400")
        return bool(self.network.nodes[FAILING].run("ss", "-Htn", *which))


@contextmanager
def killed(running: Served, name: str) -> Iterator[None]:
    """A part is killed, and there again at the block's end."""
    running.kill(name)
    yield
    running.start(name)


@contextmanager
def started_anew(running: Served, name: str) -> Iterator[None]:
    """A part is killed and there again at once."""
    running.kill(name)
    running.start(name)
    yield


@contextmanager
def cut_off(running: Served, name: str) -> Iterator[None]:
    """A node's cable is cut for the length of the block."""
    switch = running.network.nodes["switch"]
    switch.ip("link", "set", f"to-{name}", "down")
    try:
        yield
    finally:
        switch.ip("link", "set", f"to-{name}", "up")


FAULTS: Mapping[str, Callable[[Served], AbstractContextManager[None]]] = {
    "back-end-killed": lambda running: killed(running, FAILING),
    "back-end-cut-off": lambda running: cut_off(running, FAILING),
    "switch-restarted": lambda running: started_anew(running, "switch"),
    "front-restarted": lambda running: started_anew(running, "front"),
    "client-gone": lambda running: cut_off(running, "client"),
}


@dataclass(frozen=True)
class Failing:
    """The same before it stands: links of ``rate``, an object of ``size`` bytes; back ends wait ``idle`` seconds."""

    rate: Rate
    size: int
    idle: int

    def as_json(self) -> dict[str, object]:
        return {"rate": str(self.rate), "back_ends": len(BACK_ENDS), "idle": self.idle}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Served]:  # noqa: ARG002
        """All of it, for the length of the block. Raises CommandError (exit 71) if no connection is handed over."""
        with (
            reserved(name) as directory,
            standing_network(f"trib-{name}", directory) as network,
            ExitStack() as stack,
        ):
            shape(network, self.rate.amount, 1)
            folder = network.objects(FAILING) / FAILING
            folder.mkdir()
            (folder / OBJECT).write_bytes(os.urandom(self.size))
            running = Served(network, rules(network.back_ends), back_end_options=("--idle", str(self.idle)))
            stack.callback(running.stop)
            for each in ("switch", *BACK_ENDS, "front"):
                running.start(each)
            wait_until_handed_over(network)
            yield running
