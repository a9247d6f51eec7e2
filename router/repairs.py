"""When an endpoint is made anew because the kernel has given up subflows from it, though its link is well. Pure.

The kernel's path manager uses an endpoint once for each session: a subflow that is over, by a reset or a time-out, does
not come back. An endpoint that is deleted and made anew is used once more, but its other sessions lose their subflows
for a round trip or two, too. So it is done when at least as many sessions get one back as have one now, and not more
often than a time that doubles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

FIRST = 1.0
"""Seconds from the loss to the repair: sessions that end lose all of their subflows, and are gone by then."""
LONGEST = 300.0
"""Seconds between two repairs at most."""
_MOST_SESSIONS = 10_000
"""Remembered for each endpoint."""

Address = str
Token = int


@dataclass
class _Loss:
    """Sessions that have lost their subflow from one address."""

    due: float
    pause: float = FIRST
    sessions: set[Token] = field(default_factory=set)


class Repairs:
    """What was lost, by the address of the endpoint."""

    def __init__(self) -> None:
        self._losses: dict[Address, _Loss] = {}

    @property
    def next_due(self) -> float | None:
        """When to decide again; None while nothing is lost."""
        return min((loss.due for loss in self._losses.values() if loss.sessions), default=None)

    def lost(self, address: Address, session: Token, now: float) -> None:
        """The kernel has given up a subflow of ``session`` from ``address``, whose endpoint stands."""
        loss = self._losses.setdefault(address, _Loss(now + FIRST))
        if not loss.sessions:
            if now > loss.due + LONGEST:
                loss.pause = FIRST
            loss.due = max(loss.due, now + FIRST)
        if len(loss.sessions) < _MOST_SESSIONS:
            loss.sessions.add(session)

    def forget(self, address: Address) -> None:
        """The endpoint is gone; when it comes back, all sessions join anew."""
        self._losses.pop(address, None)

    def postpone(self, now: float) -> None:
        """It is not known now which sessions live: ask again a little later."""
        for loss in self._losses.values():
            loss.due = max(loss.due, now + FIRST)

    def decide(self, sessions: Mapping[Token, frozenset[Address]], now: float) -> list[Address]:
        """The addresses whose endpoints are to be made anew; ``sessions`` are those that live, with their subflows'."""
        return [address for address, loss in self._losses.items() if _is_worth_it(address, loss, sessions, now)]


def _is_worth_it(address: Address, loss: _Loss, sessions: Mapping[Token, frozenset[Address]], now: float) -> bool:
    if now < loss.due or not loss.sessions:
        return False
    loss.sessions = {token for token in loss.sessions if address not in sessions.get(token, {address})}
    if not loss.sessions:
        return False
    loss.due = now + loss.pause
    loss.pause = min(2 * loss.pause, LONGEST)
    return len(loss.sessions) >= sum(address in each for each in sessions.values())
