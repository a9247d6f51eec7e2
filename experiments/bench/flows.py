"""Bulk connections between the nodes of a pair, and the rule that holds them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from experiments.bench import pair
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS
from experiments.testbed.server import start_origin
from tributary.settings.errors import CommandError, Exit

HELD_PORT, BESIDE_PORT = 5001, 5002
HELD = ("--mptcp", "--after", "0.3")
"""What passes before the hold is there is none of its business: it gets 0.3 seconds to come."""


@contextmanager
def serving(testbed: Testbed) -> Iterator[None]:
    """The gateway serves both ports for the length of the block."""
    with ExitStack() as stack:
        for port in (HELD_PORT, BESIDE_PORT):
            stack.enter_context(start_origin(testbed.gateway, f"{pair.LISTENER}:{port}", "--mptcp"))
        yield


@contextmanager
def flow(testbed: Testbed, port: int, direction: str, seconds: float, *options: str) -> Iterator[None]:
    """A connection from the client for the length of the block; raises CommandError if it ended before."""
    where = ("--to", f"{pair.LISTENER}:{port}", *(["--upload"] if direction == "upload" else []))
    command = native.load("flow", *where, "--seconds", str(seconds), *options)
    with testbed.client.start(f"flow-{port}", command) as process:
        yield
        if process.popen.poll() is not None:
            last = (process.output().splitlines() or ["it printed nothing"])[-1]
            raise CommandError(Exit.SYSTEM, f"the {direction} ended before its time: {last}")


def rule(rate: str, direction: str) -> str:
    """The policy's rule that holds each subflow on the first path."""
    return (
        f'[[rules]]\nname = "held"\nmin_subflows = 1\npath = "{PATHS[0]}"\nrate = "{rate}"\ndirection = "{direction}"\n'
    )
