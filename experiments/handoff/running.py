"""The parts of a hand-off at work, each with its process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from experiments.handoff.network import RULES, SERVICE, Network
from experiments.testbed.node import Parts, Process, wait_until

RELAYED = "relayed"
"""What the front relays is below this name, and there below its back end's."""
HANDED_OVER = '"handed-over"'
"""In the line of a connection in the front's access log."""
_READY_WITHIN = 20.0
"""Seconds until a front has found its back ends."""


@dataclass(frozen=True)
class Running(Parts):
    """What runs on the ``network``, by its nodes' names; its front goes by these ``rules``, its back ends
    have these options."""

    network: Network
    rules: str = RULES
    back_end_options: Sequence[str] = ()
    processes: dict[str, Process] = field(default_factory=dict)

    def begin(self, name: str, *options: str, **settings: Any) -> Process:
        """Start what runs on a node, and wait until it is ready; ``options`` take the place of its usual ones."""
        if name == "switch":
            return self.network.start_switch(*options, **settings)
        if name == "front":
            return self.network.start_front(*options or (self.rules,), **settings)
        return self.network.start_back_end(name, *options or self.back_end_options, **settings)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.stop()


@contextmanager
def at_work(network: Network, *back_end_options: str) -> Iterator[Running]:
    """All parts, for the length of the block: each back end is handed the requests below its name."""
    running = Running(network, rules(network.back_ends), back_end_options)
    try:
        running.start("switch", *network.back_ends, "front")
        wait_until_handed_over(network)
        yield running
    finally:
        running.stop()


def wait_until_handed_over(network: Network) -> None:
    """Wait until each back end is handed its requests; raises CommandError (exit 71)."""
    for each in network.back_ends:
        wait_until(partial(_handed_over, network, each), _READY_WITHIN, "no connection was handed over")


def _handed_over(network: Network, back_end: str) -> bool:
    """Whether a request for nothing that is there goes to a back end by a hand-over."""
    log = network.directory / "access.log"
    before = log.read_text().count(HANDED_OVER) if log.exists() else 0
    url = f"http://{SERVICE}/{back_end}/"
    network.nodes["client"].run("curl", "--silent", "--max-time", "5", "--output", "/dev/null", url)
    return log.exists() and log.read_text().count(HANDED_OVER) > before


def rules(back_ends: Sequence[str]) -> str:
    """Of the front: each back end has the objects below its name; and what is relayed. Pure."""
    by_name = [(each, f'[[handoff.rules]]\nto = ["{each}"]\n') for each in back_ends]
    handed = [f'{rule}path = "/{name}/"\n' for name, rule in by_name]
    relayed = [f'{rule}path = "/{RELAYED}/{name}/"\nrelay = true\n' for name, rule in by_name]
    return "".join(handed + relayed)
