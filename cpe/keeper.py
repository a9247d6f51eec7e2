"""All of the pure parts in a row: what was observed in, steps out. The clock is the caller's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cpe.difference import AddEndpoint, RemoveEndpoint, Step, difference, numbers
from cpe.health import Health
from cpe.links import Link, Reason, links
from cpe.memory import Memory
from cpe.observed import Address, Endpoint, Limits, Observed
from cpe.ours import NUMBERS
from cpe.repairs import Repairs
from cpe.settings import CpeSettings
from cpe.wanted import Wanted, foreign, installed, wanted
from tributary.mptcp.events import Ended, SubflowClosed


@dataclass(frozen=True)
class State:
    """Whether a link is used, if not why, and since when, in seconds since 1970."""

    down: Reason | None
    since: float


@dataclass(frozen=True)
class Change:
    """A link that came up or went down."""

    link: Link
    down: Reason | None


@dataclass(frozen=True)
class Decision:
    """The steps to carry out, and the links whose state is another one now."""

    steps: tuple[Step, ...]
    changes: tuple[Change, ...] = ()


class Keeper:
    """What is known of the links, and what is ours in the kernel."""

    def __init__(self, settings: CpeSettings, memory: Memory) -> None:
        self.settings = settings
        self.memory = memory
        self.health = Health(settings.probe)
        self.repairs = Repairs()
        self.links: tuple[Link, ...] = ()
        self.states: dict[str, State] = {}
        self.endpoints: dict[Address, tuple[int, Endpoint]] = {}
        """Those of ours that stand, when the steps of the last look are done."""
        self.foreign: dict[int, Endpoint] = {}
        self._taken: frozenset[int] = frozenset()
        self._last = max(memory.endpoints, default=NUMBERS.start - 1)

    def change_settings(self, settings: CpeSettings) -> None:
        """Go by other settings from the next look on; what the probes have found out is forgotten."""
        self.settings = settings
        self.health = Health(settings.probe)

    @property
    def limits(self) -> Limits:
        """What the settings say."""
        return Limits(self.settings.mptcp.subflows, self.settings.mptcp.accepted_addresses)

    def look(self, observed: Observed, wall: float) -> Decision:
        """Decide by what is there; ``wall`` in seconds since 1970. Keep ``memory`` before the steps are done."""
        self.links = links(self.settings, observed)
        self.health.keep([link.name for link in self.links if self.source_of_probe(link)])
        made = _still_there(self.memory.endpoints, observed)
        self.foreign = foreign(observed, made)
        aims = wanted(self.links, self.health.dead, self.foreign, self.limits)
        ours = installed(observed, made, aims.endpoints)
        steps = difference(aims, ours, observed.endpoints, self._last)
        self._taken = frozenset(observed.endpoints)
        self._keep(ours.endpoints, steps)
        self.memory = Memory(self._made(made, steps), self.memory.limits_before or observed.limits)
        return Decision(steps, tuple(self._changes(wall)))

    def source_of_probe(self, link: Link) -> Address | None:
        """The address that probes of ``link`` come from, None if it is not probed."""
        target = self.settings.probe.target
        ways = (way for way in link.ways if target and way.version == target.address.version)
        return next((way.addresses[0] for way in ways), None)

    def state(self, link: Link) -> Reason | None:
        """Why ``link`` is not used; None if it is."""
        return Reason.NO_ANSWER if link.name in self.health.dead else link.down

    def lost(self, event: SubflowClosed, now: float) -> None:
        """The kernel tells of the end of a subflow."""
        standing = {str(address) for address in self.endpoints}
        if event.reason in (Ended.RESET, Ended.TIMEOUT) and event.subflow.local in standing:
            self.repairs.lost(event.subflow.local, event.token, now)

    def repair(self, sessions: Mapping[int, frozenset[str]], now: float) -> Decision:
        """Make endpoints anew for which that is due; ``sessions`` are the living ones' tokens and local addresses."""
        due = self.repairs.decide(sessions, now)
        old = [self.endpoints[address] for address in self.endpoints if str(address) in due]
        new = numbers(self._taken, self._last)
        steps = tuple(
            step
            for number, endpoint in old
            for step in (RemoveEndpoint(number, endpoint), AddEndpoint(next(new), endpoint))
        )
        self._keep(dict(self.endpoints.values()), steps)
        self.memory = replace(self.memory, endpoints=self._made(self.memory.endpoints, steps))
        return Decision(steps)

    def withdrawal(self, observed: Observed) -> tuple[Step, ...]:
        """The steps that take away all that is ours; limits that somebody else has set meanwhile stay."""
        before = self.memory.limits_before if observed.limits == self.limits else None
        ours = installed(observed, self.memory.endpoints, ())
        return difference(Wanted(limits=before), ours, observed.endpoints, self._last)

    def _keep(self, standing: Mapping[int, Endpoint], steps: tuple[Step, ...]) -> None:
        """Know which endpoints stand after ``steps``, and which id was given out last."""
        after = dict(standing)
        for step in steps:
            if isinstance(step, RemoveEndpoint):
                after.pop(step.number, None)
            elif isinstance(step, AddEndpoint):
                after[step.number] = step.endpoint
                self._last = step.number
        self._taken |= frozenset(after)
        for address in self.endpoints.keys() - {endpoint.address for endpoint in after.values()}:
            self.repairs.forget(str(address))
        self.endpoints = {endpoint.address: (number, endpoint) for number, endpoint in after.items()}

    @staticmethod
    def _made(made: Mapping[int, Address], steps: tuple[Step, ...]) -> dict[int, Address]:
        new = {step.number: step.endpoint.address for step in steps if isinstance(step, AddEndpoint)}
        return {**made, **new}

    def _changes(self, wall: float) -> Iterator[Change]:
        self.states = {name: state for name, state in self.states.items() if name in self.settings.wan}
        for link in self.links:
            down = self.state(link)
            known = self.states.get(link.name)
            if known is None or known.down != down:
                self.states[link.name] = State(down, wall)
                yield Change(link, down)


def _still_there(made: Mapping[int, Address], observed: Observed) -> dict[int, Address]:
    return {
        number: address
        for number, address in made.items()
        if number in observed.endpoints and observed.endpoints[number].address == address
    }
