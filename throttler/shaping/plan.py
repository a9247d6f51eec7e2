"""Wanted holds against installed classes and elements: the step from the one to the other.

Classes are bounded: a subflow that finds no room for one of its own shares that of its client, or else that of its
rule.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from throttler.policy.decide import Hold, Owner, Shape
from throttler.policy.model import CLASSES, PER_CLIENT
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.layout import Layout
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.segments import client_of

ELEMENTS = 131_072
"""Entries of each nft map."""
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
    Classes that are ``lost`` went with their interfaces: there is nothing to do about them.
    """

    read: tuple[Placed, ...] = ()
    layout: Layout | None = None
    open: tuple[Placed, ...] = ()
    change: tuple[Placed, ...] = ()
    leave: tuple[Element, ...] = ()
    enter: tuple[Element, ...] = ()
    drain: tuple[Placed, ...] = ()
    close: tuple[Placed, ...] = ()
    lost: tuple[Placed, ...] = ()

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
"""Where each direction of a session's throttled subflows is."""


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

    ``shared`` counts holds that found no class of their own, ``refused`` those for which not even their rule had one,
    ``unmapped`` those that found their map full. One client may have ``per_client`` classes to itself.
    """

    def __init__(
        self,
        capacity: int = CLASSES,
        reserved: int = RESERVED,
        map_size: int = ELEMENTS,
        per_client: int = PER_CLIENT,
    ) -> None:
        self._classes: dict[Place, Class] = {}
        self._held: dict[int, Held] = {}
        # The number that has been free for the longest comes first, so that a late packet meets no new class.
        self._free = deque(range(1, capacity + 1))
        self._reserved = reserved
        self._of_client: Counter[str] = Counter()
        self._draining: deque[tuple[int, Placed]] = deque()
        self._lost: list[Placed] = []
        self._absent: frozenset[str] = frozenset()
        self._map_size = map_size
        self._in_map: Counter[tuple[Direction, bool]] = Counter()
        # Of classes that owners of quotas may have.
        self._sharers: defaultdict[Owner, Counter[int]] = defaultdict(Counter)
        self.per_client = per_client
        self.elements = 0
        self.unmapped = 0
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

    def sharers(self, owner: Owner) -> Collection[int]:
        """The sessions that have a part in the classes of ``owner``, which is a client or a rule."""
        return self._sharers.get(owner, {}).keys()

    def lose(self, absent: frozenset[str]) -> None:
        """These interfaces are not there: their classes went with them, and neither drain nor are to be closed."""
        self._absent = absent
        self._lost += [placed for _, placed in self._draining if self._is_lost(placed)]
        self._draining = deque((time, placed) for time, placed in self._draining if not self._is_lost(placed))

    def _is_lost(self, placed: Placed) -> bool:
        # Those of uploads are in a device of the throttler's own.
        return placed.place.direction is Direction.DOWNLOAD and placed.place.interface in self._absent

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
            lost=self._forget_lost(),
        )

    def _forget_lost(self) -> tuple[Placed, ...]:
        lost, self._lost = tuple(self._lost), []
        self._free.extend(placed.minor for placed in lost)
        return lost

    def _settle(self, token: int, holds: Iterable[Hold], step: _Step) -> None:
        before: Held = self._held.get(token, {})
        after: dict[tuple[Direction, FourTuple], Place] = {}
        for hold in holds:
            name = (hold.direction, hold.subflow)
            old = before.get(name)
            if old is None and self._in_map[hold.direction, hold.subflow.is_ipv6] >= self._map_size:
                self.unmapped += 1
                continue
            place = old if old in _candidates(hold) else self._find(hold, step)
            if place is None:
                self.refused += 1
                continue
            after[name] = place
            self._shape(place, hold.shape, step)
            if place != old:
                self._enter(token, name, place, step)
        for name, place in before.items():
            if after.get(name) != place:
                self._leave(token, name, place, step)
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
        if place.owner.shared_by is SharedBy.RULE:
            return bool(self._free)
        within = not _is_single(place) or self._of_client[client_of(hold.subflow.remote)] < self.per_client
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

    def _enter(self, token: int, name: tuple[Direction, FourTuple], place: Place, step: _Step) -> None:
        known = self._classes[place]
        known.members += 1
        self._count(token, name, place.owner, 1)
        step.enter.append(Element(name[1], known.placed))

    def _leave(self, token: int, name: tuple[Direction, FourTuple], place: Place, step: _Step) -> None:
        known = self._classes[place]
        known.members -= 1
        self._count(token, name, place.owner, -1)
        step.leave.append(Element(name[1], known.placed))
        if not known.members:
            step.emptied[place] = None

    def _count(self, token: int, name: tuple[Direction, FourTuple], owner: Owner, by: int) -> None:
        self.elements += by
        self._in_map[name[0], name[1].is_ipv6] += by
        if owner.shared_by in (SharedBy.CLIENT, SharedBy.RULE):
            sharers = self._sharers[owner]
            sharers[token] += by
            if not sharers[token]:
                del sharers[token]
            if not sharers:
                del self._sharers[owner]

    def _retire(self, place: Place, now: int) -> Placed:
        retired = self._classes.pop(place)
        if _is_single(place):
            self._of_client[retired.client] -= 1
            if not self._of_client[retired.client]:
                del self._of_client[retired.client]
        if self._is_lost(retired.placed):
            self._lost.append(retired.placed)
        else:
            self._draining.append((now, retired.placed))
        return retired.placed

    def _close(self, now: int) -> Iterator[Placed]:
        while self._draining and self._draining[0][0] + GRACE <= now:
            _, placed = self._draining.popleft()
            self._free.append(placed.minor)
            yield placed


def _candidates(hold: Hold) -> tuple[Place, ...]:
    """Where ``hold`` may be, the narrowest place first."""
    rule, shared_by = hold.owner.rule, hold.owner.shared_by
    owners = [hold.owner]
    if shared_by in (SharedBy.SUBFLOW, SharedBy.SESSION):
        owners.append(Owner(rule, SharedBy.CLIENT, client_of(hold.subflow.remote)))
    if shared_by is not SharedBy.RULE:
        owners.append(Owner(rule, SharedBy.RULE, rule))
    return tuple(Place(hold.interface, hold.direction, owner, hold.dscp) for owner in owners)


def _is_single(place: Place) -> bool:
    return place.owner.shared_by in (SharedBy.SUBFLOW, SharedBy.SESSION)
