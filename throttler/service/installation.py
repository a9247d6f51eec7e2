"""What stands in the kernel: plans go in, byte counters come out."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from throttler.service.events import CounterRead
from throttler.shaping import apply, statistics
from throttler.shaping.layout import Layout, device
from throttler.shaping.plan import Element, Plan
from throttler.shaping.render import TABLES, Kernel, class_id
from tributary.daemons.logs import Log
from tributary.settings.errors import CommandError


class StepFailed(Exception):
    """A step could not be carried out, or only in part; or what was carried out ``others`` have undone."""

    def __init__(self, failure: CommandError, by_others: bool = False) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.by_others = by_others


class Installation:
    """Does what plans say. ``read`` and ``carry_out`` raise StepFailed when the kernel may have a part of a step."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kernel = Kernel()
        self._layout = Layout()

    @property
    def tables(self) -> list[str]:
        """The nft tables that are to be there."""
        return [TABLES[direction] for direction in self._layout.tables]

    @contextmanager
    def standing(self, first: Plan) -> Iterator[None]:
        """The layout of the plan that is to be carried out first stands while the block runs; all is gone afterwards.

        Raises CommandError, with nothing left behind, if it cannot stand.
        """
        layout = first.layout or Layout()
        apply.refuse_foreign(layout.devices)
        apply.remove_leftovers()
        with apply.installed(layout) as kernel:
            self._kernel, self._layout = kernel, layout
            yield

    def read(self, plan: Plan) -> Iterator[CounterRead]:
        """What the counters show that ``plan`` says to read; to be called before it is carried out."""
        with _step():
            for placed in plan.read:
                where = device(placed.place.interface, placed.place.direction)
                found = statistics.of_class(where, placed.minor)
                yield CounterRead(placed.minor, found.ip_bytes if found else None)

    def carry_out(self, plan: Plan) -> None:
        """Bring ``plan`` into the kernel."""
        with _step():
            if plan.layout is not None:
                self._extend(plan.layout)
            if not plan.is_empty:
                apply.carry_out(plan, self._layout, self._kernel)
        self._tell("release", plan.leave)
        self._tell("throttle", plan.enter)

    def _extend(self, layout: Layout) -> None:
        apply.check_roots(self._layout.devices & layout.devices)
        if layout != self._layout:
            self._kernel = apply.extend(self._layout, layout, self._kernel)
            self._layout = layout

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
    except CommandError as failure:
        raise StepFailed(failure) from failure
