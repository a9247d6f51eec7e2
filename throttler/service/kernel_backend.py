"""The installed state in the kernel: applies plans, reads byte counters."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from throttler.service.events import CounterRead
from throttler.shaping import backend
from throttler.shaping.plan import Element, Plan
from throttler.shaping.render import MARK, TABLES, Kernel, class_id
from throttler.shaping.topology import Topology, device
from tributary.daemons.logs import Log
from tributary.kernel import htb
from tributary.settings.errors import CommandError


class StepFailed(Exception):
    """A step could not be applied, or only in part; or ``others`` have undone what was applied."""

    def __init__(self, failure: CommandError, by_others: bool = False) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.by_others = by_others


class KernelBackend:
    """Applies plans. ``read`` and ``apply`` raise StepFailed when the kernel may have a part of a step."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kernel = Kernel()
        self._topology = Topology()

    @property
    def tables(self) -> list[str]:
        """The nft tables that are to be there."""
        return [TABLES[direction] for direction in self._topology.tables]

    @contextmanager
    def installed(self, first: Plan) -> Iterator[None]:
        """The topology of the first plan is installed while the block runs; everything is removed afterwards.

        Raises CommandError, with nothing left behind, if it cannot be installed.
        """
        topology = first.topology or Topology()
        backend.ensure_no_foreign_qdisc(topology.devices)
        backend.remove_leftovers()
        with backend.installed(topology) as kernel:
            self._kernel, self._topology = kernel, topology
            yield

    def read(self, plan: Plan) -> Iterator[CounterRead]:
        """Reads the counters that ``plan`` names; call it before ``apply``."""
        with _step():
            for each in plan.read:
                where = device(each.key.interface, each.key.direction)
                found = htb.of_class(where, MARK, each.minor)
                yield CounterRead(each.minor, found.ip_bytes if found else None)

    def apply(self, plan: Plan) -> None:
        """Apply ``plan`` to the kernel."""
        with _step():
            if plan.topology is not None:
                self._extend(plan.topology)
            if not plan.is_empty:
                backend.apply(plan, self._topology, self._kernel)
        self._tell("release", plan.remove)
        self._tell("throttle", plan.add)

    def _extend(self, topology: Topology) -> None:
        backend.check_roots(self._topology.devices & topology.devices)
        if topology != self._topology:
            self._kernel = backend.extend(self._topology, topology, self._kernel)
            self._topology = topology

    def _tell(self, what: str, elements: Iterable[Element]) -> None:
        for element in elements:
            leaf = element.htb
            self._log.event(
                what,
                subflow=str(element.subflow),
                interface=leaf.key.interface,
                direction=str(leaf.key.direction),
                rule=leaf.key.owner.rule,
                **{"class": class_id(leaf.minor)},
            )


@contextmanager
def _step() -> Iterator[None]:
    try:
        yield
    except CommandError as failure:
        raise StepFailed(failure) from failure
