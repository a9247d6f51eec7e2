"""What a contender takes before it does anything: time to start, memory, and memory for connections that are idle."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.bench.converter.contenders import Contender, Route
from experiments.testbed import cables, native
from experiments.testbed.build import Testbed
from experiments.testbed.node import Process
from experiments.testbed.usage import resident
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
