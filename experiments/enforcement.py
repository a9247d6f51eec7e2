"""When the throttler took hold of a session, by packet timestamps on the gateway."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.testbed.build import Testbed
from tributary.settings.errors import CommandError, Exit


@dataclass(frozen=True)
class Enforcement:
    """Unix times of the join's third ACK and of the first packet in the held class."""

    join_ack: float
    first_held: float

    @property
    def milliseconds(self) -> float:
        return 1000 * (self.first_held - self.join_ack)


@contextmanager
def watched(testbed: Testbed, *, installed: bool = False) -> Iterator[Callable[[], Enforcement]]:
    """Watch the gateway while the block runs; the function given says what was seen, as long as the testbed stands.

    What is held by a rule that was ``installed`` before may be held before the join. The function raises CommandError
    (exit 1) if no packet was ever held.
    """
    links = [link.name for link in testbed.topology.links]
    with testbed.gateway.probe("enforcement", *["--installed"] * installed, *links) as probe:
        yield lambda: _read(probe.output())


def _read(output: str) -> Enforcement:
    last = output.splitlines()[-1]
    if last == "ready":
        raise CommandError(
            Exit.WRONG_RESULT, "no packet was ever held: the throttler saw no join, or did not enforce it"
        )
    return Enforcement(**json.loads(last))
