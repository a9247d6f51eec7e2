"""What an engine has in the kernel: plans go in, byte counters come out."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from throttler.policy.model import Policy
from throttler.service.engine import Engine
from throttler.shaping import apply, statistics
from throttler.shaping.layout import Layout, device
from throttler.shaping.plan import Element, Placed, Plan
from throttler.shaping.render import Kernel, class_id
from tributary.daemons.logs import Log
from tributary.settings.failure import Failure


class StepFailed(Exception):
    """A step could not be carried out, or only in part."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Installation:
    """Carries out what ``engine`` plans. Every method raises StepFailed when the kernel may have a part of a step."""

    def __init__(self, engine: Engine, log: Log) -> None:
        self._engine = engine
        self._log = log
        self._kernel = Kernel()
        self._layout = Layout()

    @contextmanager
    def standing(self) -> Iterator[None]:
        """The engine's layout stands in the kernel while the block runs; all is gone afterwards."""
        apply.remove_leftovers()
        with apply.installed(self._engine.layout) as kernel:
            self._kernel, self._layout = kernel, self._engine.layout
            yield

    def take(self, plan: Plan) -> None:
        """Carry out ``plan``."""
        if plan.is_empty:
            return
        with _step():
            self._read([placed for placed in plan.close if placed.minor in self._engine.metered])
            apply.carry_out(plan, self._layout, self._kernel)
        for placed in plan.close:
            self._engine.close(placed.minor)
        self._tell("release", plan.leave)
        self._tell("hold", plan.enter)

    def change_policy(self, policy: Policy, set_live: frozenset[str]) -> None:
        """From now on the engine decides by ``policy``."""
        layout = self._engine.adopt(policy, set_live, time.monotonic_ns())
        with _step():
            apply.check_roots(self._layout)
            if layout != self._layout:
                self._kernel = apply.extend(self._layout, layout, self._kernel)
                self._layout = layout
        self.take(self._engine.decide_anew(time.monotonic_ns()))

    def read_quotas(self, everything: bool = False) -> None:
        """Read the counters that are due, or all, and hold those whose quota has been spent."""
        now = time.monotonic_ns()
        metered = self._engine.metered
        minors = list(metered) if everything else self._engine.quotas.due(now)
        with _step():
            spent = self._read(metered[minor] for minor in minors if minor in metered)
        if spent:
            self.take(self._engine.spend(time.monotonic_ns()))

    def _read(self, classes: Iterable[Placed]) -> bool:
        """Whether a quota has been spent by what the counters say."""
        spent = False
        for placed in classes:
            where = device(placed.place.interface, placed.place.direction)
            found = statistics.of_class(where, placed.minor)
            if found is not None:
                spent |= self._engine.read(placed.minor, found.ip_bytes, time.monotonic_ns())
        return spent

    def _tell(self, what: str, elements: Iterable[Element]) -> None:
        for element in elements:
            placed = element.placed
            self._log.event(
                what,
                subflow=str(element.subflow),
                interface=placed.place.interface,
                direction=str(placed.place.direction),
                rule=placed.place.owner.rule,
                **{"class": class_id(placed.minor)},
            )


@contextmanager
def _step() -> Iterator[None]:
    try:
        yield
    except Failure as failure:
        raise StepFailed(failure) from failure
