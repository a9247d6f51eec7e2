"""How long packets stay in a converter, by timestamps on both of its sides."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.testbed.node import Node, python
from tributary.settings.errors import CommandError, Exit

ONE_AT_A_TIME = ("--clients", "1", "--pause", "2", "--mptcp")
"""Arguments of tributary-load for what is watched."""

Delays = dict[str, list[float]]
"""Microseconds of every packet by its kind, as experiments.probes.conversion tells them."""


@contextmanager
def watched(gateway: Node, client_side: str, server_side: str) -> Iterator[Callable[[], Delays]]:
    """Watch both interfaces while the block runs; the function given ends that, and says what was seen.

    It raises CommandError (exit 1) if packets were lost to the probe.
    """
    with gateway.start(
        "conversion", python("experiments.probes.conversion", client_side, server_side)
    ).wait_until_ready() as probe:

        def seen() -> Delays:
            probe.stop(30)
            told = probe.report()
            if lost := told.pop("lost"):
                raise CommandError(Exit.WRONG_RESULT, f"the probe lost {lost} packets: no figure can be trusted")
            return dict(told)

        yield seen
