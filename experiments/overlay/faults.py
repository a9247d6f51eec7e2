"""What happens to an overlay while it is in use: what it needs is away, nodes die or hang, a link grows.

Each is a context manager: at its end everything runs again, though it may take a while until all is as before. A node
is one that some chains pass; ``agents_silent`` takes several.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from experiments.overlay.running import Running
from experiments.testbed.node import Process


@contextmanager
def etcd_away(overlay: Running) -> Iterator[None]:
    """Nobody can write or read anything; it comes back with its data."""
    overlay.processes["etcd"].kill()
    yield
    overlay.start_etcd()


@contextmanager
def controller_killed(overlay: Running) -> Iterator[None]:
    """The only one."""
    overlay.processes["controller"].kill()
    yield
    overlay.start_controller()


@contextmanager
def node_killed(overlay: Running, name: str) -> Iterator[None]:
    """Converter and agent are dead: their connections are reset, and new ones refused."""
    for what in ("agent", "converter"):
        overlay.processes[f"{name}.{what}"].kill()
    yield
    overlay.start_converter(name)
    overlay.start_agent(name)


def node_hung(overlay: Running, name: str) -> AbstractContextManager[None]:
    """Converter and agent stand still, while the node's kernel still acknowledges connections and bytes for them."""
    return _stopped([overlay.processes[f"{name}.{what}"] for what in ("agent", "converter")])


def agents_silent(overlay: Running, names: Sequence[str]) -> AbstractContextManager[None]:
    """The agents of these nodes say nothing; their converters go on."""
    return _stopped([overlay.processes[f"{name}.agent"] for name in names])


@contextmanager
def link_grown(overlay: Running, one: str, other: str, before: float, during: float) -> Iterator[None]:
    """The link between two nodes has another round-trip time, in milliseconds."""
    overlay.mesh.set_round_trip(one, other, during)
    yield
    overlay.mesh.set_round_trip(one, other, before)


@contextmanager
def _stopped(processes: Sequence[Process]) -> Iterator[None]:
    for process in processes:
        os.kill(process.popen.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process.popen.pid, signal.SIGCONT)
