"""What experiments stand on whose subject is a program's own time, or one link: an origin, and no converter."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from experiments.study.blueprint import Built, Ground, Standing
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import ORIGIN, laid_out
from experiments.testbed.server import start_origin
from experiments.testbed.topology import SERVER, Profile


def cabled() -> Ground[Testbed]:
    """Client, gateway and server, which has an origin, on plain cables, so that nothing else takes any time."""
    return cables_with(nullcontext)


def cables_with(
    more: Callable[[Testbed], AbstractContextManager[Built]],
    processors: Collection[int] | None = None,
    **described: object,
) -> Ground[Built]:
    """The same with what ``more`` makes of them, all on these ``processors`` or on any."""

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Built]]:
        kept = nullcontext() if processors is None else _kept_to(processors)
        with kept, laid_out(name) as testbed, more(testbed) as built:
            yield Standing(built)

    return Ground({"cables": "veth", **described}, stands)


def linked(profile: Profile, role: str = SERVER, listens: str = ORIGIN) -> Ground[Testbed]:
    """A testbed with an origin on one of its nodes. What links do is seen by what is measured: they are not checked."""

    @contextmanager
    def stands(name: str, seed: int, _tolerance: float) -> Iterator[Standing[Testbed]]:
        with standing(name, profile, seed) as testbed, start_origin(testbed.node(role), listens):
            yield Standing(testbed)

    return Ground({"links": profile.model_dump(mode="json", exclude_none=True)}, stands)


@contextmanager
def _kept_to(processors: Collection[int]) -> Iterator[None]:
    """Keep this process, and all that is started within the block, to these processors, by their numbers."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
