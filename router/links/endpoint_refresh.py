"""When to recreate an endpoint because the kernel has given up subflows from it, though its link works. Pure.

The kernel's path manager uses an endpoint once for each session: a subflow that has ended by a reset or a timeout does
not come back. A recreated endpoint is used once more, but its other sessions lose their subflows for a round trip or
two. So it is done when at least as many sessions gain a subflow as lose one for that time, with an interval that
doubles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

FIRST = 1.0
"""Seconds from the loss to the refresh: sessions that end lose all of their subflows, and are gone by then."""
LONGEST = 300.0
"""Seconds between two refreshes at most."""
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


class EndpointRefresher:
    """The losses, by the address of the endpoint."""

    def __init__(self) -> None:
        self._losses: dict[Address, _Loss] = {}

    @property
    def next_due(self) -> float | None:
        """When to call ``due`` again; None without losses."""
        return min((loss.due for loss in self._losses.values() if loss.sessions), default=None)

    def on_subflow_lost(self, address: Address, session: Token, now: float) -> None:
        """The kernel has given up a subflow of ``session`` from ``address``, whose endpoint exists."""
        loss = self._losses.setdefault(address, _Loss(now + FIRST))
        if not loss.sessions:
            if now > loss.due + LONGEST:
                loss.pause = FIRST
            loss.due = max(loss.due, now + FIRST)
        if len(loss.sessions) < _MOST_SESSIONS:
            loss.sessions.add(session)

    def remove(self, address: Address) -> None:
        """The endpoint is gone. When it comes back, all sessions join again."""
        self._losses.pop(address, None)

    def postpone(self, now: float) -> None:
        """The live sessions are unknown now: tries again a little later."""
        for loss in self._losses.values():
            loss.due = max(loss.due, now + FIRST)

    def due(self, sessions: Mapping[Token, frozenset[Address]], now: float) -> list[Address]:
        """The addresses whose endpoints to recreate; ``sessions`` are the live ones with their subflows' addresses."""
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
