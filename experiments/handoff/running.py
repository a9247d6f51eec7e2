"""The parts of a hand-off at work, each with its process."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from experiments.handoff.network import RULES, Network
from experiments.testbed.node import Process


@dataclass(frozen=True)
class Running:
    """What runs on the ``network``, by its nodes' names; its front goes by these ``rules``, its back ends
    have these options."""

    network: Network
    rules: str = RULES
    back_end_options: Sequence[str] = ()
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start what runs on a node, and wait until it is ready."""
        if name == "switch":
            self.processes[name] = self.network.start_switch()
        elif name == "front":
            self.processes[name] = self.network.start_front(self.rules)
        else:
            self.processes[name] = self.network.start_back_end(name, *self.back_end_options)

    def kill(self, name: str) -> None:
        """End it without a last word."""
        process = self.processes.pop(name)
        process.popen.kill()
        process.popen.wait()

    def stop(self) -> None:
        """End all of it, what started last first."""
        for process in reversed(self.processes.values()):
            process.stop()
