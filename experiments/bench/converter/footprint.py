"""What a contender takes by itself: time to start, memory, memory for connections that are idle; and to convert."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from experiments.bench.converter.contenders import Contender, Route
from experiments.scenarios.conversion_delay import ONE_AT_A_TIME, watched
from experiments.testbed import cables, native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, SERVER_SIDE
from experiments.testbed.node import Process
from experiments.testbed.usage import resident
from tributary.settings.errors import CommandError, Exit

DELAYS = {"syn_us": "syn", "data_us": "first_data", "kept_data_us": "data", "reply_us": "reply"}
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


def conversion_us(testbed: Testbed, contender: Contender, seconds: float) -> dict[str, float]:
    """Medians: ``syn_us``, ``data_us`` (a connection's first data), ``kept_data_us`` (later ones), ``reply_us``.

    One new connection after the other, each with one request, and then requests on one that is kept.
    """
    load = (*contender.route, *ONE_AT_A_TIME, "--seconds", str(seconds))
    with watched(testbed.gateway, CLIENT_SIDE, SERVER_SIDE) as seen:
        # A connection to the origin that was kept would have no SYN.
        cables.load(testbed, "connect", *load, "--fresh")
        cables.load(testbed, "requests", *load)
        told = seen()
    if empty := [kind for kind in DELAYS.values() if not told[kind]]:
        raise CommandError(Exit.WRONG_RESULT, f"{contender.name}: the probe saw no {empty[0]} on both sides")
    return {name: median(told[kind]) for name, kind in DELAYS.items()}
