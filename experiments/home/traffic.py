"""What a home's devices do, and what is measured of it: downloads, calls, and the processor time that they cost."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from experiments.home.gateway import HTTP_PORT
from experiments.home.household import Household
from experiments.home.network import CALL_PORT, PORTS, SERVER
from experiments.testbed import native
from experiments.testbed.node import Node, Process
from experiments.testbed.topology import Link
from experiments.testbed.usage import Clocks, bytes_passed, machine_seconds
from tributary.settings.errors import CommandError, Exit

WARM_UP = 2.0
"""Seconds of a download that its rate leaves out: slow start, and subflows that are still to join."""
_HUNG = 40.0
"""Seconds after its time in which a download has ended, or failed."""


@dataclass(frozen=True)
class Call:
    """A call that has ended: when it was answered, who the server took the caller for, what each answer took."""

    answers: Sequence[tuple[float, str]]
    waits: Sequence[tuple[float, float]] = ()

    @property
    def addresses(self) -> list[str]:
        return sorted({address for _, address in self.answers})

    def gap(self, since: float, until: float) -> float:
        """The longest time without an answer from ``since`` to ``until``, in seconds. Pure."""
        inside = [at for at, _ in self.answers if since < at < until]
        return max(later - earlier for earlier, later in pairwise([since, *inside, until]))

    def waited(self, since: float) -> float:
        """The median of what answers took from ``since`` on, in seconds."""
        return median(wait for at, wait in self.waits if at > since)

    def last_by(self, address: str) -> float:
        """When the server last knew the caller by ``address``."""
        return max(at for at, by in self.answers if by == address)


@dataclass(frozen=True)
class Running:
    """A download of so many ``seconds`` under way."""

    process: Process
    seconds: float

    def end(self) -> Any:
        """What tributary-load tells of it; raises CommandError: exit 1 if a byte was wrong, 71 if it failed."""
        code = self.process.popen.wait(self.seconds + _HUNG)
        if code:
            wrong = Exit.WRONG_RESULT if code == Exit.WRONG_RESULT else Exit.SYSTEM
            raise CommandError(wrong, f"a download failed: {self.process.output().strip()}")
        return self.process.report()


@contextmanager
def _flow(node: Node, seconds: float, *how: str) -> Iterator[Running]:
    """A download over one connection for so long."""
    times = ("--seconds", str(seconds), "--warm-up", str(min(WARM_UP, seconds / 3)))
    with node.start("download", native.load("flow", *times, *how)) as process:
        yield Running(process, seconds)


def downloading(device: Node, seconds: float, port: int = PORTS[0]) -> AbstractContextManager[Running]:
    """A download of the device, every byte of which is compared with what it should be."""
    return _flow(device, seconds, "--to", f"{SERVER}:{port}", "--verify")


def mbps(home: Household, seconds: float, port: int = PORTS[0]) -> float:
    """What such a download reaches behind its warm-up; raises CommandError as its end does."""
    with downloading(home.network.device, seconds, port) as download:
        return float(download.end()["bits_per_second"]) / 1e6


def one_way(home: Household, link: Link, seconds: float) -> AbstractContextManager[Running]:
    """A download by TCP of the router's own, by one link or its tunnel alone, through the gateway's converter."""
    proxy = ("--to", f"{SERVER}:{PORTS[0]}", "--via-http-proxy", f"{home.router.gateway}:{HTTP_PORT}")
    return _flow(home.network.router, seconds, *proxy, "--source", home.router.source(link))


def alone(home: Household, seconds: float) -> dict[str, float]:
    """What each way reaches by itself, in Mbit/s, one after the other; raises CommandError."""
    rates = {}
    for link in home.network.links:
        with one_way(home, link, seconds) as download:
            rates[link.name] = download.end()["bits_per_second"] / 1e6
    return rates


@contextmanager
def calling(device: Node) -> Iterator[Callable[[], Call]]:
    """A call of the device, which has begun; the function given ends it, and says how it was."""
    with device.probe("call", "ask", SERVER, str(CALL_PORT)) as process:

        def end() -> Call:
            process.stop()
            told = process.report()
            return Call([(at, by) for at, by in told["answers"]], [(at, wait) for at, wait in told["waits"]])

        yield end


def per_gigabyte(spent: Mapping[str, float], count: int) -> dict[str, float]:
    """Processor seconds that were ``spent`` on a download of so many bytes, for each gigabyte. Pure."""
    return {f"{name}_cpu_s_per_gb": 1e9 * seconds / count for name, seconds in spent.items()}


@contextmanager
def costing(home: Household) -> Iterator[Callable[[], dict[str, float]]]:
    """The function given says what was spent since the block began: processor seconds of the programs on both ends,
    and of the whole machine, which does much else besides.
    """
    ends = {"router": Clocks(home.network.router.pids()), "gateway": Clocks(home.network.gateway.pids())}
    before = machine_seconds(home.network.server)
    yield lambda: {
        **{name: clocks.seconds() for name, clocks in ends.items()},
        "machine": machine_seconds(home.network.server) - before,
    }


def watched(home: Household, seconds: float, every: float = 0.25) -> dict[str, list[tuple[float, float]]]:
    """(seconds, Mbit/s of frames since the look before) that come in by each of the router's links for so long."""
    # Whoever runs in a namespace shows its interfaces.
    path, begun = Path(f"/proc/{home.network.router.pids()[0]}/net/dev"), time.monotonic()
    samples = [(0.0, bytes_passed(path.read_text()))]
    while (passed := samples[-1][0]) < seconds:
        time.sleep(min(every, seconds - passed))
        samples.append((time.monotonic() - begun, bytes_passed(path.read_text())))
    return {
        link.name: [
            (at, 8e-6 * (now[link.name][0] - before[link.name][0]) / (at - earlier))
            for (earlier, before), (at, now) in pairwise(samples)
        ]
        for link in home.network.links
    }
