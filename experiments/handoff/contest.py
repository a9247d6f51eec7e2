"""A hand-off at work, over links of one rate, beside proxies in the front's place and back ends asked directly.

                          +-- 1 link --- front (or a proxy)
    client --N links-- switch
                          +-- 1 link --- back end a
                          +-- 1 link --- back end b ...

What a proxy answers with has to come to it and leave it by its one link: so one link's rate is all that the client gets
by it, however many back ends there are. By a hand-off, and directly, it gets what all back ends' links carry together.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from experiments.bench.kernel_threads import Clocks
from experiments.handoff import clients
from experiments.handoff.network import SERVICE, Network, standing_network
from experiments.handoff.proxies import PROXIES
from experiments.handoff.shaping import shape
from experiments.scenarios.cabled import Unlinked
from experiments.testbed.build import reserved
from experiments.testbed.node import Node, Process
from experiments.testbed.tolerance import TOLERANCE
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Rate

HANDOFF, DIRECT = "handoff", "direct"
CONTENDERS = (HANDOFF, DIRECT, *PROXIES)
"""Ours, without any, and the proxies."""
SMALL = 1000
"""Bytes of an object that is answered by one segment."""
RELAYED = "relayed"
"""What the front relays is below this name, and there below its back end's."""
HANDED_OVER = '"handed-over"'
"""In the line of a connection in the front's access log."""
_READY_WITHIN = 20.0
"""Seconds until a front has found its back ends."""


@dataclass(frozen=True)
class Contest(Unlinked):
    """All of them, as they listen; the ``processes`` of the front and of those in its place."""

    network: Network
    processes: Mapping[str, Process] = field(default_factory=dict)

    @property
    def client(self) -> Node:
        """Who asks."""
        return self.network.nodes["client"]

    def url(self, by: str, back_end: str, size: int) -> str:
        """Of an object of so many bytes at a back end, by a contender."""
        if by == DIRECT:
            host = self.network.http(back_end)
        else:
            host = SERVICE if by == HANDOFF else f"{self.network.address('front')}:{PROXIES[by].port}"
        return f"http://{host}/{back_end}/{size}"

    def load(
        self, by: str, size: int, connections: int, seconds: float, back_ends: int | None = None
    ) -> dict[str, float]:
        """What clients get, so many connections for each of all ``back_ends``, or the first of them: ``mbps``,
        ``per_second``; and meanwhile of the front, or who is in its place, ``front_cpu_ms_per_gb`` and
        ``front_cpu_percent`` of one processor, and ``front_percent`` of the bytes that passed its link, counted in the
        direction in which more of them did. Raises CommandError (exit 1) if a request failed.
        """
        asked, clocks = self.network.back_ends[:back_ends], Clocks(self._pids(by))
        since, before = time.monotonic(), front_bytes(self.network)
        seconds_before = clocks.seconds()
        got = clients.load(self.client, [self.url(by, each, size) for each in asked], connections, seconds)
        took, worked = time.monotonic() - since, clocks.seconds() - seconds_before
        if got.errors or not got.per_second:
            raise CommandError(Exit.WRONG_RESULT, f"{by}: {got.errors} requests failed, {got.per_second:.0f}/s did not")
        gigabytes = got.mbps * took / 8000
        return {
            "mbps": got.mbps,
            "per_second": got.per_second,
            "front_cpu_ms_per_gb": 1000 * worked / gigabytes,
            "front_cpu_percent": 100 * worked / took,
            "front_percent": 1e-7 * (front_bytes(self.network) - before) / gigabytes,
        }

    def _pids(self, by: str) -> list[int]:
        """Of a contender in the front's place and its children; none of who is not there."""
        if by not in self.processes:
            return []
        pid = self.processes[by].popen.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def microseconds(self, urls: Sequence[str], what: str, count: int) -> float:
        """The median of clients.times() at the client, for the last one of ``urls``."""
        return median(group[-1] for group in clients.times(self.client, urls, what, count))


def is_here(by: str) -> bool:
    """Whether a contender can take part."""
    return by not in PROXIES or PROXIES[by].is_here


def front_bytes(network: Network) -> int:
    """Bytes that went over the link to the front so far, in the direction in which more did."""
    lines = network.nodes["front"].run("cat", "/proc/net/dev").splitlines()
    fields = next(line.split() for line in lines if line.split()[0] == "eth0:")
    return max(int(fields[1]), int(fields[9]))


@dataclass(frozen=True)
class Contesting:
    """The same before it stands: ``back_ends``, links of ``rate``, and objects of these ``sizes`` in bytes."""

    rate: Rate
    sizes: tuple[int, ...]
    back_ends: tuple[str, ...] = ("a", "b")
    links_of_client: int = 2

    def as_json(self) -> dict[str, object]:
        return {"rate": str(self.rate), "back_ends": len(self.back_ends), "links_of_client": self.links_of_client}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Contest]:  # noqa: ARG002
        """All of them, for the length of the block. Raises CommandError (exit 71) if no connection is handed over."""
        with reserved(name) as directory, standing_network(f"trib-{name}", directory, self.back_ends) as network:
            shape(network, self.rate.amount, self.links_of_client)
            for each in network.back_ends:
                _stock(network.objects(each) / each, self.sizes)
                _stock(network.objects(each) / RELAYED / each, ())
            with at_work(network) as front, ExitStack() as stack:
                here = [proxy for proxy in PROXIES.values() if proxy.is_here]
                proxies = {each.program: stack.enter_context(each.start(network)) for each in here}
                yield Contest(network, {HANDOFF: front, **proxies})


def _stock(folder: Path, sizes: Sequence[int]) -> None:
    """Objects whose names are their sizes."""
    folder.mkdir(parents=True)
    for size in {SMALL, *sizes}:
        (folder / str(size)).write_bytes(os.urandom(size))


@contextmanager
def at_work(network: Network) -> Iterator[Process]:
    """Switch, back ends and the front, which it gives, for the length of the block: each is handed its requests."""
    with ExitStack() as stack:
        stack.enter_context(network.start_switch())
        for each in network.back_ends:
            stack.enter_context(network.start_back_end(each))
        front = stack.enter_context(network.start_front(rules(network.back_ends)))
        wait_until_handed_over(network)
        yield front


def wait_until_handed_over(network: Network) -> None:
    """Wait until each back end is handed its requests; raises CommandError (exit 71)."""
    for each in network.back_ends:
        _eventually(partial(handed_over, network, each))


def rules(back_ends: Sequence[str]) -> str:
    """Of the front: each back end has the objects below its name; and what is relayed. Pure."""
    by_name = [(each, f'[[handoff.rules]]\nto = ["{each}"]\n') for each in back_ends]
    handed = [f'{rule}path = "/{name}/"\n' for name, rule in by_name]
    relayed = [f'{rule}path = "/{RELAYED}/{name}/"\nrelay = true\n' for name, rule in by_name]
    return "".join(handed + relayed)


def handed_over(network: Network, back_end: str) -> bool:
    """Whether a request for nothing that is there goes to a back end by a hand-over."""
    log = network.directory / "access.log"
    before = log.read_text().count(HANDED_OVER) if log.exists() else 0
    url = f"http://{SERVICE}/{back_end}/"
    network.nodes["client"].run("curl", "--silent", "--max-time", "5", "--output", "/dev/null", url)
    return log.exists() and log.read_text().count(HANDED_OVER) > before


def _eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while not holds():
        if time.monotonic() > deadline:
            raise CommandError(Exit.SYSTEM, f"no connection was handed over within {_READY_WITHIN:g} s")
        time.sleep(0.05)
