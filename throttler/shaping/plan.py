"""Wanted holds against installed holds: what to add and what to remove."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from throttler.policy.model import Hold

CAPACITY = 16_384
"""Holds at one time: classes in HTB and elements in the nft maps."""


@dataclass(frozen=True)
class Placed:
    """A hold and the minor number of its HTB class, which is also the low half of its mark."""

    hold: Hold
    minor: int


@dataclass(frozen=True)
class Plan:
    """One step from what is installed for ``tokens`` to what is wanted; ``refused`` holds found no free class."""

    tokens: frozenset[int]
    add: tuple[Placed, ...] = ()
    remove: tuple[Placed, ...] = ()
    refused: tuple[Hold, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done in the kernel."""
        return not (self.add or self.remove)


class Ledger:
    """What is installed, by session, and which minor numbers are free."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._placed: dict[int, tuple[Placed, ...]] = {}
        # The number that has been free for the longest comes first, so that a late packet meets no new class.
        self._free = deque(range(1, capacity + 1))
        self._waiting: set[int] = set()

    def __iter__(self) -> Iterator[Placed]:
        return (placed for session in self._placed.values() for placed in session)

    def of(self, token: int) -> tuple[Placed, ...]:
        """What is installed for the session."""
        return self._placed.get(token, ())

    @property
    def waiting(self) -> frozenset[int]:
        """The sessions with refused holds, if there is room for some of them now."""
        return frozenset(self._waiting) if self._free else frozenset()

    def plan(self, tokens: Collection[int], wanted: Iterable[Hold]) -> Plan:
        """The step to ``wanted``, which is everything that is wanted for the sessions ``tokens``."""
        wanted = frozenset(wanted)
        installed = [placed for token in sorted(tokens) for placed in self.of(token)]
        new = sorted(wanted - {placed.hold for placed in installed}, key=lambda hold: (hold.interface, hold.subflow))
        minors = tuple(islice(self._free, len(new)))
        return Plan(
            tokens=frozenset(tokens),
            add=tuple(map(Placed, new, minors)),
            remove=tuple(placed for placed in installed if placed.hold not in wanted),
            refused=tuple(new[len(minors) :]),
        )

    def commit(self, plan: Plan) -> None:
        """Take note that ``plan``, the last one made, was carried out."""
        self._waiting -= plan.tokens
        self._waiting |= {hold.token for hold in plan.refused}
        for placed in plan.remove:
            self._forget(placed)
            self._free.append(placed.minor)
        for placed in plan.add:
            self._free.popleft()
            self._placed[placed.hold.token] = (*self.of(placed.hold.token), placed)

    def _forget(self, placed: Placed) -> None:
        rest = tuple(other for other in self.of(placed.hold.token) if other != placed)
        if rest:
            self._placed[placed.hold.token] = rest
        else:
            del self._placed[placed.hold.token]
