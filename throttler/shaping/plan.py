"""Compares desired assignments with installed classes and elements, and plans the step between them.

Classes are bounded: a subflow that finds no room for one of its own shares that of its client, or else that of its
rule.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from throttler.policy.decide import Assignment, ClassRates, Owner
from throttler.policy.model import CLASSES, PER_CLIENT
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.topology import Topology
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.segments import client_of

ELEMENTS = 131_072
"""Entries of each nft map."""
RESERVED = 1024
"""Classes reserved for rules to share."""
GRACE = 2 * 10**9
"""Nanoseconds from the last element of a class to its removal: by then its queue is empty."""


@dataclass(frozen=True, slots=True)
class ClassKey:
    """What identifies a class."""

    interface: str
    direction: Direction
    owner: Owner
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class HtbClass:
    """An HTB class: its minor number, which is also the low half of its mark, and its parameters."""

    key: ClassKey
    minor: int
    rates: ClassRates


@dataclass(frozen=True, slots=True)
class Element:
    """One direction of a subflow, in its class: an entry of an nft map."""

    subflow: FourTuple
    htb: HtbClass

    @property
    def direction(self) -> Direction:
        return self.htb.key.direction


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. Classes are opened or changed, elements removed and added, classes drained, and drained ones closed.

    Before that the counters of ``read`` are read, and ``topology``, if any, replaces the installed one.
    Classes that are ``lost`` went with their interfaces: there is nothing to do about them.
    """

    read: tuple[HtbClass, ...] = ()
    topology: Topology | None = None
    open: tuple[HtbClass, ...] = ()
    change: tuple[HtbClass, ...] = ()
    remove: tuple[Element, ...] = ()
    add: tuple[Element, ...] = ()
    drain: tuple[HtbClass, ...] = ()
    close: tuple[HtbClass, ...] = ()
    lost: tuple[HtbClass, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no class and no element changes."""
        return not (self.open or self.change or self.remove or self.add or self.drain or self.close)


@dataclass
class ActiveClass:
    """A class in use by a number of ``members``; the first was that ``client``'s."""

    htb: HtbClass
    client: str
    members: int = 0


ClassKeys = Mapping[tuple[Direction, FourTuple], ClassKey]
"""The class of each throttled direction of a session's subflows."""


@dataclass
class _Step:
    """A plan under construction."""

    open: dict[ClassKey, HtbClass] = field(default_factory=dict)
    change: dict[ClassKey, HtbClass] = field(default_factory=dict)
    remove: list[Element] = field(default_factory=list)
    add: list[Element] = field(default_factory=list)
    emptied: dict[ClassKey, None] = field(default_factory=dict)


class ClassTable:
    """The classes and elements that are installed.

    ``shared`` counts assignments that found no class of their own, ``refused`` those for which not even their rule had
    one, ``unmapped`` those that found their map full. One client may have ``per_client`` classes to itself.
    """

    def __init__(
        self, capacity: int = CLASSES, reserved: int = RESERVED, map_size: int = ELEMENTS, per_client: int = PER_CLIENT
    ) -> None:
        self.classes: dict[ClassKey, ActiveClass] = {}
        self.class_keys: dict[int, ClassKeys] = {}
        """What is installed for each session that has an element; that of one session is not changed any more."""
        # The number that has been free for the longest is used first, so that a late packet meets no new class.
        self._free = deque(range(1, capacity + 1))
        self._reserved = reserved
        self._of_client: Counter[str] = Counter()
        self._draining: deque[tuple[int, HtbClass]] = deque()
        self._lost: list[HtbClass] = []
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

    def __len__(self) -> int:
        return len(self.classes)

    def sharers(self, owner: Owner) -> Collection[int]:
        """The sessions that have a part in the classes of ``owner``, which is a client or a rule."""
        return self._sharers.get(owner, {}).keys()

    def set_absent(self, absent: frozenset[str]) -> None:
        """The absent interfaces: their classes went with them, and are neither drained nor closed."""
        self._absent = absent
        self._lost += [htb for _, htb in self._draining if self._is_lost(htb)]
        self._draining = deque((time, htb) for time, htb in self._draining if not self._is_lost(htb))

    def _is_lost(self, htb: HtbClass) -> bool:
        # Those of uploads are in a device of the throttler's own.
        return htb.key.direction is Direction.DOWNLOAD and htb.key.interface in self._absent

    @property
    def next_close(self) -> int | None:
        """When a drained class can be closed, in nanoseconds of the clock that the steps had."""
        return self._draining[0][0] + GRACE if self._draining else None

    def step(self, wanted: Mapping[int, Iterable[Assignment]], now: int) -> Plan:
        """The step to ``wanted``, which has all assignments of the sessions that it names.

        The table counts it as done: after a failure begin with a new table.
        """
        step = _Step()
        for token, assignments in wanted.items():
            self._update_session(token, assignments, step)
        drain = tuple(self._start_drain(key, now) for key in step.emptied if not self.classes[key].members)
        return Plan(
            open=tuple(step.open.values()),
            change=tuple(step.change.values()),
            remove=tuple(step.remove),
            add=tuple(step.add),
            drain=drain,
            close=tuple(self._close(now)),
            lost=self._take_lost(),
        )

    def _take_lost(self) -> tuple[HtbClass, ...]:
        lost, self._lost = tuple(self._lost), []
        self._free.extend(htb.minor for htb in lost)
        return lost

    def _update_session(self, token: int, assignments: Iterable[Assignment], step: _Step) -> None:
        before: ClassKeys = self.class_keys.get(token, {})
        after: dict[tuple[Direction, FourTuple], ClassKey] = {}
        for assignment in assignments:
            name = (assignment.direction, assignment.subflow)
            old = before.get(name)
            if old is None and self._in_map[assignment.direction, assignment.subflow.is_ipv6] >= self._map_size:
                self.unmapped += 1
                continue
            key = old if old in _candidates(assignment) else self._find(assignment, step)
            if key is None:
                self.refused += 1
                continue
            after[name] = key
            self._set_rates(key, assignment.rates, step)
            if key != old:
                self._add(token, name, key, step)
        for name, key in before.items():
            if after.get(name) != key:
                self._remove(token, name, key, step)
        if after:
            self.class_keys[token] = after
        else:
            self.class_keys.pop(token, None)

    def _find(self, assignment: Assignment, step: _Step) -> ClassKey | None:
        """The narrowest class that exists, or that there is room to open."""
        for key in (candidates := _candidates(assignment)):
            if key not in self.classes and self._has_room(key, assignment):
                self._open(key, assignment, step)
            if key in self.classes:
                self.shared += key != candidates[0]
                return key
        return None

    def _has_room(self, key: ClassKey, assignment: Assignment) -> bool:
        if key.owner.shared_by is SharedBy.RULE:
            return bool(self._free)
        within = not _is_single(key) or self._of_client[client_of(assignment.subflow.remote)] < self.per_client
        return within and len(self._free) > self._reserved

    def _open(self, key: ClassKey, assignment: Assignment, step: _Step) -> None:
        opened = ActiveClass(
            HtbClass(key, self._free.popleft(), assignment.rates), client_of(assignment.subflow.remote)
        )
        self.classes[key] = opened
        self._of_client[opened.client] += _is_single(key)
        step.open[key] = opened.htb

    def _set_rates(self, key: ClassKey, rates: ClassRates, step: _Step) -> None:
        known = self.classes[key]
        if known.htb.rates != rates:
            known.htb = replace(known.htb, rates=rates)
            (step.open if key in step.open else step.change)[key] = known.htb

    def _add(self, token: int, name: tuple[Direction, FourTuple], key: ClassKey, step: _Step) -> None:
        known = self.classes[key]
        known.members += 1
        self._count(token, name, key.owner, 1)
        step.add.append(Element(name[1], known.htb))

    def _remove(self, token: int, name: tuple[Direction, FourTuple], key: ClassKey, step: _Step) -> None:
        known = self.classes[key]
        known.members -= 1
        self._count(token, name, key.owner, -1)
        step.remove.append(Element(name[1], known.htb))
        if not known.members:
            step.emptied[key] = None

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

    def _start_drain(self, key: ClassKey, now: int) -> HtbClass:
        retired = self.classes.pop(key)
        if _is_single(key):
            self._of_client[retired.client] -= 1
            if not self._of_client[retired.client]:
                del self._of_client[retired.client]
        if self._is_lost(retired.htb):
            self._lost.append(retired.htb)
        else:
            self._draining.append((now, retired.htb))
        return retired.htb

    def _close(self, now: int) -> Iterator[HtbClass]:
        while self._draining and self._draining[0][0] + GRACE <= now:
            _, htb = self._draining.popleft()
            self._free.append(htb.minor)
            yield htb


def _candidates(assignment: Assignment) -> tuple[ClassKey, ...]:
    """The classes that ``assignment`` may be in, the narrowest first."""
    rule, shared_by = assignment.owner.rule, assignment.owner.shared_by
    owners = [assignment.owner]
    if shared_by in (SharedBy.SUBFLOW, SharedBy.SESSION):
        owners.append(Owner(rule, SharedBy.CLIENT, client_of(assignment.subflow.remote)))
    if shared_by is not SharedBy.RULE:
        owners.append(Owner(rule, SharedBy.RULE, rule))
    return tuple(ClassKey(assignment.interface, assignment.direction, owner, assignment.dscp) for owner in owners)


def _is_single(key: ClassKey) -> bool:
    return key.owner.shared_by in (SharedBy.SUBFLOW, SharedBy.SESSION)
