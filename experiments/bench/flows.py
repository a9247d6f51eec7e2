"""Bulk connections between the nodes of a pair, and the rule that holds them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from experiments.bench import pair
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS
from tributary.settings.failure import Exit, Failure

HELD_PORT, BESIDE_PORT = 5001, 5002
HELD = ("--mptcp", "--after", "0.3")
"""What passes before the hold is there is none of its business: it gets 0.3 seconds to come."""
_BULK = (sys.executable, "-m", "experiments.probes.bulk")


@contextmanager
def serving(testbed: Testbed) -> Iterator[None]:
    """The gateway serves both ports for the length of the block."""
    with ExitStack() as stack:
        for port in (HELD_PORT, BESIDE_PORT):
            command = [*_BULK, "serve", str(pair.LISTENER), str(port)]
            stack.enter_context(testbed.gateway.start(f"serve-{port}", command).wait_until_ready())
        yield


@contextmanager
def flow(testbed: Testbed, port: int, direction: str, seconds: float, *options: str) -> Iterator[None]:
    """A connection from the client for the length of the block; raises Failure if it ended before."""
    where = (str(pair.LISTENER), str(port), direction, str(seconds))
    with testbed.client.start(f"bulk-{port}", [*_BULK, "run", *where, *options]) as process:
        yield
        if process.popen.poll() is not None:
            last = (process.output().splitlines() or ["it printed nothing"])[-1]
            raise Failure(Exit.SYSTEM, f"the {direction} ended before its time: {last}")


def rule(rate: str, direction: str) -> str:
    """The policy's rule that holds each subflow on the first path."""
    return (
        f'[[rules]]\nname = "held"\nmin_subflows = 1\npath = "{PATHS[0]}"\nrate = "{rate}"\ndirection = "{direction}"\n'
    )
