"""What a contender takes before it does anything: time to start, memory, and memory for connections that are idle."""

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.bench.converter.contenders import Contender, Route
from experiments.testbed import cables, native
from experiments.testbed.build import Testbed
from experiments.testbed.node import Process
from tributary.settings.errors import CommandError, Exit

_SETTLE = 0.5
_SPARE, _SPARE_PART = 500, 8
"""Descriptors that the converter keeps beside two for each connection: so many, and one in so many."""


def start_milliseconds(testbed: Testbed, contender: Contender, times: int) -> tuple[float, ...]:
    """From the start of its process, mptcpize included, until its port takes a connection."""
    with contender.command(testbed) as command:
        return cables.starts(testbed, contender.listens, times, command)


def idle(testbed: Testbed, contender: Contender, connections: int) -> tuple[float, float]:
    """Resident megabytes of a new process, and kilobytes more for each of so many idle connections."""
    with contender.running(testbed) as process:
        time.sleep(_SETTLE)
        before = resident(process.popen.pid)
        with holding(testbed, contender.tunnel, connections):
            time.sleep(_SETTLE)
            after = resident(process.popen.pid)
    return before / 1e6, (after - before) / 1e3 / connections


@contextmanager
def holding(testbed: Testbed, route: Route, connections: int) -> Iterator[Process]:
    """So many idle connections for the length of the block; raises CommandError unless all are alive at its end."""
    command = native.load("idle-connections", "--connections", str(connections), *route, "--mptcp")
    with testbed.client.start("idle-connections", command) as process:
        yield process.wait_until(lambda: "connections" in process.output())
        if process.stop(60) != 0:
            raise CommandError(Exit.WRONG_RESULT, f"not all connections stayed alive: {process.output().strip()}")


def most_held(wanted: int) -> int:
    """As many as ``wanted``, or as the limit of open files leaves room for: two are needed for each."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return min(wanted, (files - files // _SPARE_PART - _SPARE) // 2)


def resident(pid: int) -> int:
    """Bytes that the process and its descendants have in memory; what they share with anybody else counts in full, but
    once among them.
    """
    sizes = [_memory(each) for each in family(pid)]
    first, *others = sorted(sizes, key=lambda size: size["Rss"], reverse=True)
    return 1024 * (first["Rss"] + sum(size["Private_Clean"] + size["Private_Dirty"] for size in others))


def proportional(pids: Sequence[int]) -> int:
    """Bytes that the processes and their descendants have in memory; of what is shared each has its part (Pss)."""
    return 1024 * sum(_memory(each)["Pss"] for pid in pids for each in family(pid))


def _memory(pid: int) -> dict[str, int]:
    """The kilobytes of /proc/PID/smaps_rollup (proc(5))."""
    lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    tasks = (Path("/proc") / str(pid) / "task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(each for child in children for each in family(child))]
