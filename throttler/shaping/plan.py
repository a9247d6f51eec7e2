"""Wanted holds against installed classes and elements: the step from the one to the other.

Classes are bounded: a subflow that finds no room for one of its own shares that of its client, or else that of its
rule.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from throttler.policy.decide import Hold, Owner, Shape
from throttler.policy.values import Direction, Scope
from throttler.shaping.layout import Layout
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.segments import client_of

CLASSES = 16_384
"""Classes at one time, in all devices together; their minor numbers are 1 to this."""
PER_CLIENT = 64
"""Classes of single subflows and sessions that one client address may have."""
RESERVED = 1024
"""Classes kept free for rules to share."""
GRACE = 2 * 10**9
"""Nanoseconds from the last element of a class to its removal: by then its queue is empty."""


@dataclass(frozen=True, slots=True)
class Place:
    """What makes a class one and not another."""

    interface: str
    direction: Direction
    owner: Owner
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A class: where, its minor number, which is also the low half of its mark, and how it behaves."""

    place: Place
    minor: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Element:
    """One direction of a subflow in its class."""

    subflow: FourTuple
    placed: Placed

    @property
    def direction(self) -> Direction:
        """That of the class."""
        return self.placed.place.direction


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. Classes are opened or changed, elements leave and enter, classes drain, and drained ones are closed.

    Before all that the counters of ``read`` are read, and ``layout``, if there is one, takes the place of what stood.
    """

    read: tuple[Placed, ...] = ()
    layout: Layout | None = None
    open: tuple[Placed, ...] = ()
    change: tuple[Placed, ...] = ()
    leave: tuple[Element, ...] = ()
    enter: tuple[Element, ...] = ()
    drain: tuple[Placed, ...] = ()
    close: tuple[Placed, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no class and no element is touched."""
        return not (self.open or self.change or self.leave or self.enter or self.drain or self.close)


@dataclass
class Class:
    """A class that is in use: by so many ``members``, the first of which was of that ``client``."""

    placed: Placed
    client: str
    members: int = 0


Held = Mapping[tuple[Direction, FourTuple], Place]
"""Where each direction of a session's held subflows is."""


@dataclass
class _Step:
    """A plan in the making."""

    open: dict[Place, Placed] = field(default_factory=dict)
    change: dict[Place, Placed] = field(default_factory=dict)
    leave: list[Element] = field(default_factory=list)
    enter: list[Element] = field(default_factory=list)
    emptied: dict[Place, None] = field(default_factory=dict)


class Ledger:
    """What is installed, by session.

    ``shared`` counts holds that found no class of their own, ``refused`` those for which not even their rule had one.
    """

    def __init__(self, capacity: int = CLASSES, reserved: int = RESERVED) -> None:
        self._classes: dict[Place, Class] = {}
        self._held: dict[int, Held] = {}
        # The number that has been free for the longest comes first, so that a late packet meets no new class.
        self._free = deque(range(1, capacity + 1))
        self._reserved = reserved
        self._of_client: Counter[str] = Counter()
        self._draining: deque[tuple[int, Placed]] = deque()
        self.elements = 0
        self.shared = 0
        self.refused = 0

    @property
    def classes(self) -> Mapping[Place, Class]:
        """The classes that are in use."""
        return self._classes

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def held(self) -> Mapping[int, Held]:
        """What is installed for each session that has an element; that of one session is not changed any more."""
        return self._held

    @property
    def next_close(self) -> int | None:
        """When a drained class can be closed, in nanoseconds of the clock that the steps had."""
        return self._draining[0][0] + GRACE if self._draining else None

    def step(self, wanted: Mapping[int, Iterable[Hold]], now: int) -> Plan:
        """The step to ``wanted``, which is everything that is wanted for the sessions that it names.

        The ledger takes it as done: whoever fails to do it begins with a new ledger.
        """
        step = _Step()
        for token, holds in wanted.items():
            self._settle(token, holds, step)
        drain = tuple(self._retire(place, now) for place in step.emptied if not self._classes[place].members)
        return Plan(
            open=tuple(step.open.values()),
            change=tuple(step.change.values()),
            leave=tuple(step.leave),
            enter=tuple(step.enter),
            drain=drain,
            close=tuple(self._close(now)),
        )

    def _settle(self, token: int, holds: Iterable[Hold], step: _Step) -> None:
        before: Held = self._held.get(token, {})
        after: dict[tuple[Direction, FourTuple], Place] = {}
        for hold in holds:
            name = (hold.direction, hold.subflow)
            old = before.get(name)
            place = old if old in _candidates(hold) else self._find(hold, step)
            if place is None:
                self.refused += 1
                continue
            after[name] = place
            self._shape(place, hold.shape, step)
            if place != old:
                self._enter(name, place, step)
        for name, place in before.items():
            if after.get(name) != place:
                self._leave(name, place, step)
        if after:
            self._held[token] = after
        else:
            self._held.pop(token, None)

    def _find(self, hold: Hold, step: _Step) -> Place | None:
        """The narrowest place that is there already, or that there is room to open."""
        for place in (candidates := _candidates(hold)):
            if place not in self._classes and self._has_room(place, hold):
                self._open(place, hold, step)
            if place in self._classes:
                self.shared += place != candidates[0]
                return place
        return None

    def _has_room(self, place: Place, hold: Hold) -> bool:
        if place.owner.scope is Scope.RULE:
            return bool(self._free)
        within = not _is_single(place) or self._of_client[client_of(hold.subflow.remote)] < PER_CLIENT
        return within and len(self._free) > self._reserved

    def _open(self, place: Place, hold: Hold, step: _Step) -> None:
        opened = Class(Placed(place, self._free.popleft(), hold.shape), client_of(hold.subflow.remote))
        self._classes[place] = opened
        self._of_client[opened.client] += _is_single(place)
        step.open[place] = opened.placed

    def _shape(self, place: Place, shape: Shape, step: _Step) -> None:
        known = self._classes[place]
        if known.placed.shape != shape:
            known.placed = replace(known.placed, shape=shape)
            (step.open if place in step.open else step.change)[place] = known.placed

    def _enter(self, name: tuple[Direction, FourTuple], place: Place, step: _Step) -> None:
        known = self._classes[place]
        known.members += 1
        self.elements += 1
        step.enter.append(Element(name[1], known.placed))

    def _leave(self, name: tuple[Direction, FourTuple], place: Place, step: _Step) -> None:
        known = self._classes[place]
        known.members -= 1
        self.elements -= 1
        step.leave.append(Element(name[1], known.placed))
        if not known.members:
            step.emptied[place] = None

    def _retire(self, place: Place, now: int) -> Placed:
        retired = self._classes.pop(place)
        if _is_single(place):
            self._of_client[retired.client] -= 1
            if not self._of_client[retired.client]:
                del self._of_client[retired.client]
        self._draining.append((now, retired.placed))
        return retired.placed

    def _close(self, now: int) -> Iterator[Placed]:
        while self._draining and self._draining[0][0] + GRACE <= now:
            _, placed = self._draining.popleft()
            self._free.append(placed.minor)
            yield placed


def _candidates(hold: Hold) -> tuple[Place, ...]:
    """Where ``hold`` may be, the narrowest place first."""
    rule, scope = hold.owner.rule, hold.owner.scope
    owners = [hold.owner]
    if scope in (Scope.SUBFLOW, Scope.SESSION):
        owners.append(Owner(rule, Scope.CLIENT, client_of(hold.subflow.remote)))
    if scope is not Scope.RULE:
        owners.append(Owner(rule, Scope.RULE, rule))
    return tuple(Place(hold.interface, hold.direction, owner, hold.dscp) for owner in owners)


def _is_single(place: Place) -> bool:
    return place.owner.scope in (Scope.SUBFLOW, Scope.SESSION)
