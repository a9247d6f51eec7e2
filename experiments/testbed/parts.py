"""The programs that something consists of: each may die, or hang, and be there again later."""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.testbed.node import Process


class Parts(ABC):
    """Programs that run on some nodes, by their names."""

    processes: dict[str, Process]

    @abstractmethod
    def begin(self, name: str) -> Process:
        """Start one of them."""

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = self.begin(name)

    def kill(self, *names: str) -> None:
        for name in names:
            self.processes.pop(name).kill()

    @contextmanager
    def killed(self, *names: str) -> Iterator[None]:
        """These are killed, and there again at the block's end, the last one first."""
        self.kill(*names)
        yield
        self.start(*reversed(names))

    @contextmanager
    def hung(self, *names: str) -> Iterator[None]:
        """These stand still for the length of the block, while their nodes' kernel still acknowledges for them."""
        pids = [self.processes[name].popen.pid for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
