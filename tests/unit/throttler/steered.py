"""A session with subflows of made-up rates, and a kernel that does what is decided of it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from throttler.policy.quotas import SECOND
from throttler.steering.decider import Change, Decider, Readings
from throttler.steering.learned import ClientPath, Learned, client_path
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic

FAST, SLOW, THIRD = (FourTuple("10.0.0.1", 3128, f"10.0.{number}.2", 40000 + number) for number in (1, 2, 3))
HALF = SECOND // 2
MEGABYTE = 1_000_000

Rates = Mapping[FourTuple, tuple[float, float]]
"""Megabytes a second of each subflow, and the share of the time for which it sends."""
Model = Callable[[frozenset[FourTuple]], Rates]
"""What each subflow does, by those that are in use."""


def stalling(used: frozenset[FourTuple]) -> Rates:
    """The fast path waits for the slow one, unless that is a backup."""
    return {FAST: (3.0, 0.5), SLOW: (0.1, 1.0)} if SLOW in used else {FAST: (6.0, 1.0)}


def adding(used: frozenset[FourTuple]) -> Rates:
    """Both are busy: the session has the sum."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 2.0)) if name in used}


def limited(_: frozenset[FourTuple]) -> Rates:
    """The slow path keeps something under way, but the server has no more to send."""
    return {FAST: (3.0, 0.5), SLOW: (0.1, 1.0)}


def little(used: frozenset[FourTuple]) -> Rates:
    """Both are busy, but the slow path brings a thirtieth: the fast one waits for it sooner or later."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 0.2)) if name in used}


def unequal(used: frozenset[FourTuple]) -> Rates:
    """Both are busy, and the slow path brings a sixteenth of the sum."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 0.4)) if name in used}


def named(_token: int, name: FourTuple) -> ClientPath:
    return client_path("wired" if name == FAST else "wireless", name.remote)


@dataclass
class World:
    """One session, read ``every`` half a second; the kernel does what is decided."""

    model: Model
    decider: Decider = field(default_factory=lambda: Decider(named, is_dry=False))
    token: int = 7
    names: tuple[FourTuple, ...] = (FAST, SLOW)
    by_client: set[FourTuple] = field(default_factory=set)
    round_trips: Mapping[FourTuple, int] = field(default_factory=lambda: {FAST: 20_000})
    """Microseconds; of others 60,000."""
    obeys: bool = True
    refused: set[FourTuple] = field(default_factory=set)
    losing: Callable[[int, FourTuple], bool] = lambda _reading, _name: False
    """Whether a subflow retransmits before a reading of this number."""
    every: int = HALF
    now: int = 100 * SECOND
    acked: Counter[FourTuple] = field(default_factory=Counter)
    sending: Counter[FourTuple] = field(default_factory=Counter)
    again: Counter[FourTuple] = field(default_factory=lambda: Counter((FAST, SLOW, THIRD)))
    """Each has lost something, at the latest when its queue was full."""
    made: set[FourTuple] = field(default_factory=set)
    changes: list[tuple[float, Change]] = field(default_factory=list)

    def read(self, readings: int = 1) -> list[Change]:
        """So many readings; what was changed, also with its seconds in ``changes``."""
        found: list[Change] = []
        for _ in range(readings):
            self.now += self.every
            rates = self.model(frozenset(self.names) - self.made - self.by_client)
            for name, (rate, share) in rates.items():
                self.acked[name] += round(rate * MEGABYTE * self.every / SECOND)
                self.sending[name] += round(share * 1_000_000 * self.every / SECOND)
                self.again[name] += self.losing(self.now // self.every, name)
            for change in self.decider.decide(self._readings(rates), self.now):
                if self.obeys and change.subflow not in self.refused:
                    (self.made.add if change.backup else self.made.discard)(change.subflow)
                found.append(change)
                self.changes.append((self.now / SECOND - 100, change))
        return found

    def _readings(self, rates: Rates) -> Readings:
        return {
            name: Traffic(
                acked=self.acked[name],
                received=0,
                rtt_us=self.round_trips.get(name, 60_000),
                retransmitted=self.again[name],
                token=self.token,
                delivery_rate=round(2 * rates[name][0] * MEGABYTE) if rates.get(name, (0, 0))[1] == 0.5 else 0,
                sending_us=self.sending[name],
                backup=name in self.by_client,
                made_backup=name in self.made,
            )
            for name in self.names
        }


def knowing(model: Model, since: int = 0, **more: Any) -> World:
    """A world in which it was learned, from another session, that the slow path is the worse one."""
    learned = Learned()
    learned.learn(named(7, SLOW), named(7, FAST), since)
    return World(model, Decider(named, is_dry=False, learned=learned), **more)
