"""What experiments stand on whose subject is a program's own time, or one link: an origin, and no converter."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from experiments.bench.processors import kept_to
from experiments.study.blueprint import Built, Ground, Standing
from experiments.testbed import native
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import ORIGIN, Cabling, laid_out
from experiments.testbed.topology import SERVER, Profile


def cabled() -> Ground[Cabling]:
    """Client, gateway and server, which has an origin, on plain cables, so that nothing else takes any time."""
    return cables_with(nullcontext)


def cables_with(
    more: Callable[[Cabling], AbstractContextManager[Built]],
    processors: Collection[int] | None = None,
    **described: object,
) -> Ground[Built]:
    """The same with what ``more`` makes of them, all on these ``processors`` or on any."""

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Built]]:
        kept = nullcontext() if processors is None else kept_to(processors)
        with kept, laid_out(native.build(), name) as cabling, more(cabling) as built:
            yield Standing(built)

    return Ground({"cables": "veth", **described}, stands)


def linked(profile: Profile, role: str = SERVER, listens: str = ORIGIN) -> Ground[Testbed]:
    """A testbed with an origin on one of its nodes. What links do is seen by what is measured: they are not checked."""

    @contextmanager
    def stands(name: str, seed: int, _tolerance: float) -> Iterator[Standing[Testbed]]:
        origin = [str(native.build().load), "origin", "--listen", listens]
        with (
            standing(name, profile, seed=seed) as testbed,
            testbed.node(role).start("origin", origin).wait_until_ready(),
        ):
            yield Standing(testbed)

    return Ground({"links": profile.model_dump(mode="json", exclude_none=True)}, stands)
