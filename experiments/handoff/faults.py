"""A hand-off of whose parts one is away for a while."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from experiments.handoff.network import BACK_ENDS, standing_network
from experiments.handoff.running import Running, at_work
from experiments.handoff.shaping import shape
from experiments.study.blueprint import Ground, Standing
from experiments.testbed.build import reserved
from tributary.settings.units import Rate

FAILING = BACK_ENDS[0]
"""The back end that fails, and that has the object."""
OBJECT = "object"


def is_at_back_end(running: Running) -> bool:
    """Whether a client's connection is at the back end that fails."""
    which = ("state", "connected", "exclude", "time-wait", "sport", "=", ":7400")
    return bool(running.network.nodes[FAILING].run("ss", "-Htn", *which))


@contextmanager
def killed(running: Running, name: str) -> Iterator[None]:
    """A part is killed, and there again at the block's end."""
    running.kill(name)
    yield
    running.start(name)


@contextmanager
def started_anew(running: Running, name: str) -> Iterator[None]:
    """A part is killed and there again at once."""
    running.kill(name)
    running.start(name)
    yield


@contextmanager
def cut_off(running: Running, name: str) -> Iterator[None]:
    """A node's cable is cut for the length of the block."""
    switch = running.network.nodes["switch"]
    switch.ip("link", "set", f"to-{name}", "down")
    try:
        yield
    finally:
        switch.ip("link", "set", f"to-{name}", "up")


FAULTS: Mapping[str, Callable[[Running], AbstractContextManager[None]]] = {
    "back-end-killed": lambda running: killed(running, FAILING),
    "back-end-cut-off": lambda running: cut_off(running, FAILING),
    "switch-restarted": lambda running: started_anew(running, "switch"),
    "front-restarted": lambda running: started_anew(running, "front"),
    "client-gone": lambda running: cut_off(running, "client"),
}


def failing(rate: Rate, size: int, idle: int) -> Ground[Running]:
    """Links of ``rate``, an object of ``size`` bytes; back ends wait ``idle`` seconds. Raises CommandError (exit 71) as
    it begins to stand if no connection is handed over.
    """

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Running]]:
        with reserved(name) as directory, standing_network(f"trib-{name}", directory) as network:
            shape(network, rate.amount, 1)
            folder = network.objects(FAILING) / FAILING
            folder.mkdir()
            (folder / OBJECT).write_bytes(os.urandom(size))
            with at_work(network, "--idle", str(idle)) as running:
                yield Standing(running)

    return Ground({"rate": str(rate), "back_ends": len(BACK_ENDS), "idle": idle}, stands)
