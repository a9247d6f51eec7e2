"""Decides which subflows of a session are a backup, from readings of all subflows: no sockets, kernel and clock.

A session is slower than its best path alone if its receiver waits for a worse path: the best subflow is idle, although
another one is sending all the time. Then those that do become backup, as a trial. The trial stays if the session's rate
grows, and is undone otherwise. A slower path that brings little while it sends all the time becomes backup before the
receiver waits for it. A path that was left out is tried again after a pause. Every pause doubles.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from throttler.policy.quotas import SECOND
from throttler.steering.learned import ClientPath, Learned
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic
from tributary.settings.privacy import Privacy, shortened

Readings = Mapping[FourTuple, Traffic]

_APART = SECOND // 4
"""Two readings that are compared are so far apart at least."""
_BETWEEN = SECOND // 2
"""And not more often than so much, in the usual case."""
_IN_A_ROW = 3
"""Readings that show the same before anything is done."""
_JUDGED = 4
"""Readings by which a trial is judged."""
_BEFORE = 6
"""Readings before a trial that it is compared with."""
_CAPACITY = 10
"""Readings for which the best rate of a path counts."""
_CLEARLY = 0.9
"""Below this share of what there should be, something is wrong."""
_GAIN = 1.1
"""What a path must bring to be in use, and a trial to do without it, times the rate that there is otherwise."""
_GAIN_CLEAN = 1.05
"""What a path must bring that hardly loses anything: nobody waits for it long, and all of the sum is to be had."""
_IDLE, _BUSY = 0.1, 0.9
"""Shares of the time: a path is idle for more than the one, and a sender is sending for more than the other."""
_LEAST = 12_500
"""Bytes per second below which a session is left alone."""
_ROUND_TRIPS = 2
_SETTLES, _SETTLES_AT_MOST = SECOND // 2, 4 * SECOND
"""How long a change takes to show: so many round trips, and until a backup has sent what it had; within bounds."""
_PAUSE, _LONGEST_PAUSE = 10 * SECOND, 600 * SECOND
"""Between two trials of a session at first, and at most."""
_NEVER = 1 << 62
_LEFT_OUT = 30 * SECOND
"""Until a path that was left out is tried again, at first."""
_UNMEASURED = 7 * SECOND
"""The same for a path that was left out from its join on: this session has not shown yet what it is without."""


class Kind(StrEnum):
    """Kinds of decisions."""

    TRIAL = "trials"
    KEPT = "trials that stayed"
    UNTRIED = "backups without a trial"
    UNDONE = "trials undone"
    LEARNED = "backup from the join on"
    WORSE = "undone: the other path became slower"
    RETRY = "backups tried again"
    FREED = "backups in use again"
    BACK = "backups that stay"
    LEFT = "left by an earlier run"
    REFUSED = "refused by the kernel"


@dataclass(frozen=True, slots=True)
class Change:
    """Make a subflow a backup, or use it again."""

    token: int
    subflow: FourTuple
    backup: bool


class _Phase(StrEnum):
    STEADY = "steady"
    TRIAL = "trial"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class _Sample:
    """Between two readings: bytes per second of subflows, for which shares of the time they were sending, and which of
    them retransmitted.
    """

    nanoseconds: int
    rates: Mapping[FourTuple, float]
    sending: Mapping[FourTuple, float]
    losing: frozenset[FourTuple]

    @property
    def total(self) -> float:
        """Bytes per second of the session."""
        return sum(self.rates.values())


@dataclass(slots=True)
class _Session:
    """What is known of a session with several subflows. Times are in nanoseconds."""

    token: int
    known: set[FourTuple] = field(default_factory=set)
    recalled: set[FourTuple] = field(default_factory=set)
    """Those that were compared with what is learned."""
    rates: dict[FourTuple, deque[float]] = field(default_factory=dict)
    samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=_BEFORE))
    phase: _Phase = _Phase.STEADY
    left_out: set[FourTuple] = field(default_factory=set)
    """Those that this made backup."""
    tried: set[FourTuple] = field(default_factory=set)
    best: FourTuple | None = None
    before: float = 0.0
    floor: float = 0.0
    """What the session had with all paths when it was found to be better without, at most half of what it has without:
    paths that lose vary by themselves.
    """
    changed: int = 0
    joined: bool = False
    """Whether a path has joined since: what it brings says nothing about those that are tried."""
    round_trip: int = 0
    """Of the slowest path that the trial is about."""
    next_trial: int = 0
    pause: int = _PAUSE
    next_retry: int = 0
    retry_pause: int = _LEFT_OUT
    reason: str = "nothing was decided yet"
    named: set[str] = field(default_factory=set)
    """Clients' addresses in reasons."""

    @property
    def backups(self) -> set[FourTuple]:
        """Those that this side has made backup."""
        return self.left_out if self.phase is _Phase.RETRY else self.left_out | self.tried

    def used(self, readings: Readings) -> set[FourTuple]:
        """Those that neither the client nor this side has made backup."""
        return {name for name, each in readings.items() if not each.backup} - self.backups

    def capacity(self, name: FourTuple) -> float:
        """Bytes per second that the subflow has shown lately."""
        return max(self.rates[name], default=0.0)

    def shows(self, count: int) -> bool:
        """Whether there are so many samples, or the time of so many: beside many sessions readings are rare."""
        return len(self.samples) >= count or sum(each.nanoseconds for each in self.samples) >= count * _BETWEEN

    def total(self, count: int) -> float:
        """The mean of the last samples."""
        return fmean(sample.total for sample in list(self.samples)[-count:])

    def sending(self, name: FourTuple, of: Callable[[Iterable[float]], float] = fmean) -> float:
        """The mean share of the time in the last samples, or what else is made ``of`` their shares."""
        return of(sample.sending.get(name, 0.0) for sample in list(self.samples)[-_IN_A_ROW:])

    def brought(self, names: Collection[FourTuple]) -> list[float]:
        """Bytes per second by these subflows together, in each sample."""
        return [sum(sample.rates.get(name, 0.0) for name in names) for sample in self.samples]

    def gain(self, names: Collection[FourTuple]) -> float:
        """What these must bring. A queue that overflows now and then is no loss: that is in most samples."""
        losing = sum(not sample.losing.isdisjoint(names) for sample in self.samples)
        return _GAIN if 2 * losing > len(self.samples) else _GAIN_CLEAN

    def brought_little(self, names: Collection[FourTuple]) -> bool:
        """Whether these brought little in all samples, and in the later half no more than in the earlier one.

        One whose rate still grows, as in slow start, may bring more than all others.
        """
        rates, total = self.brought(names), self.total(_BEFORE)
        half = len(rates) // 2
        is_growing = sum(rates[-half:]) > sum(rates[:half])
        return half > 0 and not is_growing and total < self.gain(names) * (total - fmean(rates))

    def little(self, names: Iterable[FourTuple]) -> list[FourTuple]:
        """Those of these that brought little, also together."""
        found: list[FourTuple] = []
        for name in sorted(names, key=lambda each: sum(self.brought([each]))):
            if self.brought_little([*found, name]):
                found.append(name)
        return found


PathOf = Callable[[int, FourTuple], ClientPath | None]
"""The path of a session's subflow, None if it is not known."""


class Decider:
    """Takes readings and the time, returns changes; ``counts`` are by kind of decision.

    ``is_dry``: decides about trials, and makes none.
    """

    def __init__(self, path_of: PathOf, is_dry: bool, learned: Learned | None = None) -> None:
        self._path_of = path_of
        self._is_dry = is_dry
        self._before: tuple[int, Readings] = (0, {})
        self._sessions: dict[int, _Session] = {}
        self.learned = Learned() if learned is None else learned
        self.counts: Counter[Kind] = Counter()

    @property
    def steered(self) -> int:
        """Sessions that have a backup by decision."""
        return sum(bool(session.backups) for session in self._sessions.values())

    def explain(self, token: int, privacy: Privacy = "full") -> str | None:
        """Why a session's paths are in use or not; None for a session of one path."""
        session = self._sessions.get(token)
        if session is None:
            return None
        reason = session.reason
        for address in session.named:
            shown = shortened(address, privacy)
            reason = re.sub(rf"(?<![\w.:]){re.escape(address)}(?![\w.:])", shown, reason)
        return reason

    def release(self) -> list[Change]:
        """Use everything again, and forget the sessions."""
        sessions, self._sessions, self._before = self._sessions, {}, (0, {})
        return [Change(each.token, name, False) for each in sessions.values() for name in each.backups]

    def decide(self, readings: Readings, now: int) -> list[Change]:
        """What follows from ``readings`` of all subflows at ``now``, in nanoseconds of a monotonic clock."""
        by_token: dict[int, dict[FourTuple, Traffic]] = {}
        for name, traffic in readings.items():
            by_token.setdefault(traffic.token, {})[name] = traffic
        several = {token: there for token, there in by_token.items() if len(there) > 1}
        left = self._sessions.keys() - several.keys()
        changes = [change for token in left for change in self._end(token, by_token.get(token, ()))]
        then, before = self._before
        is_apart = now - then >= _APART
        for token, there in several.items():
            session = self._sessions.setdefault(token, _Session(token))
            changes += self._follow(session, there, now)
            if is_apart and _measure(session, there, before, now - then):
                changes += self._judge(session, there, now)
        if is_apart:
            self._before = now, readings
        return changes

    def _end(self, token: int, names: Iterable[FourTuple]) -> Iterator[Change]:
        """The session has one path or none: that one is in use."""
        session = self._sessions.pop(token)
        for name in names:
            if name in session.backups:
                yield Change(token, name, False)

    def _follow(self, session: _Session, readings: Readings, now: int) -> Iterator[Change]:
        """Take up what has come, what has gone, and what the kernel has not done."""
        for gone in session.known - readings.keys():
            session.rates.pop(gone, None)
            session.recalled.discard(gone)
            session.left_out.discard(gone)
            session.tried.discard(gone)
        for new in readings.keys() - session.known:
            session.rates[new] = deque(maxlen=_CAPACITY)
            session.joined = True
        if not session.tried:
            session.phase = _Phase.STEADY
        session.known = set(readings)
        made = set() if self._is_dry else {name for name, each in readings.items() if each.made_backup}
        if not session.backups <= made:
            # What it did take is used again below: this session is not asked for any more.
            session.left_out, session.tried = set(), set()
            session.phase, session.next_trial, session.next_retry = _Phase.STEADY, _NEVER, _NEVER
            self._tell(session, Kind.REFUSED, "it began before pm_type was 1: the kernel takes no decision about it")
        for name in made - session.backups:
            self.counts[Kind.LEFT] += 1
            yield Change(session.token, name, False)
        used = session.used(readings)
        if not used and session.backups:
            session.phase, session.left_out, session.tried = _Phase.STEADY, session.backups, set()
            yield from self._free(session, now, Kind.WORSE, "what is no backup is gone, or one by the client's will")
        elif len(used) > 1 and session.phase is not _Phase.RETRY and not used <= session.recalled:
            yield from self._recall(session, used, now)

    def _recall(self, session: _Session, used: Collection[FourTuple], now: int) -> Iterator[Change]:
        """Leave out what earlier sessions were better without."""
        paths = {name: where for name in used if (where := self._path_of(session.token, name))}
        session.recalled |= paths.keys()
        for name, where in paths.items():
            others = [each for each in paths if each != name and each not in session.left_out]
            beside = next((each for each in others if self.learned.is_worse(where, paths[each], now)), None)
            if beside is None or self._is_dry:
                continue
            session.left_out.add(name)
            session.best, session.floor = beside, 0.0
            session.next_retry, session.retry_pause = now + _UNMEASURED, _LEFT_OUT
            text = f"{self._called(session, [name])} is a backup: earlier sessions were faster without"
            self._tell(session, Kind.LEARNED, text)
            yield Change(session.token, name, True)

    def _judge(self, session: _Session, readings: Readings, now: int) -> Iterator[Change]:
        match session.phase:
            case _Phase.STEADY:
                yield from self._watch(session, readings, now)
            case _Phase.TRIAL if self._is_over(session, now):
                yield from self._end_trial(session, now)
            case _Phase.RETRY if self._is_over(session, now):
                yield from self._end_retry(session, readings, now)
            case _:
                pass

    def _is_over(self, session: _Session, now: int) -> bool:
        """Whether a trial can be judged; what was measured before it took effect is dropped."""
        passed = now - session.changed
        has_rest = any(session.samples[-1].sending.get(name, 0.0) > _IDLE for name in session.backups)
        settles = max(_SETTLES, _ROUND_TRIPS * session.round_trip)
        if passed < min(settles, _SETTLES_AT_MOST) or (has_rest and passed < _SETTLES_AT_MOST):
            session.samples.clear()
        return session.shows(_JUDGED)

    def _watch(self, session: _Session, readings: Readings, now: int) -> Iterator[Change]:
        if not session.shows(_IN_A_ROW) or not (used := session.used(readings)):
            return
        total, best = session.total(_IN_A_ROW), max(used, key=session.capacity)
        is_busy = session.sending(best) > _BUSY
        if session.left_out and is_busy and total < _CLEARLY * session.floor:
            text = f"{_rate(total)} without the others, less than {_rate(session.floor)}: all are used again"
            yield from self._free(session, now, Kind.WORSE, text)
        elif session.left_out and now >= session.next_retry:
            yield from self._retry(session, readings, now)
        elif now >= session.next_trial and total > _LEAST:
            others = [name for name in used if name != best and session.sending(name) > _BUSY]
            slower = [name for name in others if readings[name].rtt_us > readings[best].rtt_us]
            if is_busy and session.shows(_BEFORE) and (little := session.little(slower)):
                shown = f"{_rate(fmean(session.brought(little)))} of {_rate(session.total(_BEFORE))}"
                text = f"{shown} came by what is slower and always sends"
                yield from self._do_without(session, best, little, now, text)
            elif others and total < _CLEARLY * sum(map(session.capacity, used.difference(others))):
                yield from self._try(session, best, others, readings, now)

    def _try(
        self, session: _Session, best: FourTuple, others: list[FourTuple], readings: Readings, now: int
    ) -> Iterator[Change]:
        """Try to do without ``others`` if the best path has been idle in each of the last readings."""
        idle, total, capacity = 1 - session.sending(best, max), session.total(_IN_A_ROW), session.capacity(best)
        if idle <= _IDLE:
            return
        waits = f"is idle {100 * idle:.0f} % of the time or more while others send"
        text = f"{self._called(session, [best])} has shown {_rate(capacity)}, and {waits}: {_rate(total)} in all"
        if total < _IDLE * capacity:
            # All wait for what the others have under way, and would in a trial.
            yield from self._do_without(session, best, others, now, text)
            return
        if self._is_dry:
            self._postpone(session, now)
            self._tell(session, Kind.TRIAL, f"{text}; the others would become backup, for a trial")
            return
        session.phase, session.best, session.tried = _Phase.TRIAL, best, set(others)
        self._begin(session, [readings[name] for name in others], now)
        self._tell(session, Kind.TRIAL, f"{text}; the others are a backup, for a trial")
        yield from (Change(session.token, name, True) for name in others)

    def _do_without(
        self, session: _Session, best: FourTuple, others: list[FourTuple], now: int, text: str
    ) -> Iterator[Change]:
        """Leave out paths without a trial, which could cost as much as they bring."""
        if self._is_dry:
            self._postpone(session, now)
            self._tell(session, Kind.UNTRIED, f"{text}; {self._called(session, others)} would become a backup")
            return
        session.best = best
        self._leave_out(session, others, session.total(_BEFORE) / 2, now)
        session.samples.clear()
        self._tell(session, Kind.UNTRIED, f"{text}: {self._called(session, others)} is a backup")
        yield from (Change(session.token, name, True) for name in others)

    def _begin(self, session: _Session, changed: Iterable[Traffic], now: int) -> None:
        # The session may have paused before the last readings.
        session.before = max(session.total(_BEFORE), session.total(_IN_A_ROW))
        session.samples.clear()
        session.joined = False
        session.changed, session.round_trip = now, 1000 * max((each.rtt_us for each in changed), default=0)

    def _end_trial(self, session: _Session, now: int) -> Iterator[Change]:
        after, session.phase = session.total(_JUDGED), _Phase.STEADY
        tried, session.tried = session.tried, set()
        text = f"{_rate(after)} without {self._called(session, tried)}, {_rate(session.before)} with"
        is_better = after >= _GAIN * session.before and not session.joined
        if session.best in session.known and is_better:
            self._leave_out(session, tried, min(session.before, after / 2), now)
            self._tell(session, Kind.KEPT, f"{text}: a backup")
            return
        self._postpone(session, now)
        self._tell(session, Kind.UNDONE, f"{text}: used")
        yield from (Change(session.token, name, False) for name in tried)

    def _leave_out(self, session: _Session, names: Collection[FourTuple], floor: float, now: int) -> None:
        session.left_out |= set(names)
        session.floor = floor
        session.next_trial = now + session.pause
        session.next_retry, session.retry_pause = now + _LEFT_OUT, 2 * _LEFT_OUT
        self._learn(session, names, now)

    def _retry(self, session: _Session, readings: Readings, now: int) -> Iterator[Change]:
        session.next_retry = now + session.retry_pause
        if max(map(session.sending, readings)) < _BUSY:
            # It has too little to send to show anything.
            return
        session.phase, session.tried, session.left_out = _Phase.RETRY, session.left_out, set()
        self._begin(session, [readings[name] for name in session.tried], now)
        self._tell(session, Kind.RETRY, "what is a backup is used again, to see whether it is of use now")
        yield from (Change(session.token, name, False) for name in session.tried)

    def _end_retry(self, session: _Session, readings: Readings, now: int) -> Iterator[Change]:
        after, session.phase = session.total(_JUDGED), _Phase.STEADY
        tried, session.tried = session.tried, set()
        used = session.used(readings) - tried
        text = f"{_rate(after)} with {self._called(session, tried)}, {_rate(session.before)} without"
        # Without the second condition it is another path that has become faster.
        is_better = after >= session.gain(tried) * session.before and not session.brought_little(tried)
        if not used or (is_better and not session.joined):
            self._postpone(session, now)
            self._learn(session, tried, now, is_worse=False)
            self._tell(session, Kind.FREED, f"{text}: used")
            return
        session.left_out |= tried
        session.next_retry = now + session.retry_pause
        session.retry_pause = min(2 * session.retry_pause, _LONGEST_PAUSE)
        if max(map(session.sending, readings)) >= _BUSY and not session.joined:
            # Otherwise it paused meanwhile, or got another path: it may have more with all than that.
            session.floor = min(after, session.before / 2)
        self._tell(session, Kind.BACK, f"{text}: still a backup")
        yield from (Change(session.token, name, True) for name in tried)

    def _free(self, session: _Session, now: int, kind: Kind, text: str) -> Iterator[Change]:
        left_out, session.left_out = session.left_out, set()
        self._learn(session, left_out, now, is_worse=False)
        self._postpone(session, now)
        # What the paths had shown until now is over.
        for rates in session.rates.values():
            rates.clear()
        session.samples.clear()
        self._tell(session, kind, text)
        yield from (Change(session.token, name, False) for name in left_out)

    def _learn(self, session: _Session, worse: Iterable[FourTuple], now: int, is_worse: bool = True) -> None:
        better = self._path_of(session.token, session.best) if session.best else None
        for name in worse:
            where = self._path_of(session.token, name)
            if where and better and is_worse:
                self.learned.learn(where, better, now)
            elif where and better:
                self.learned.forget(where, better)

    def _postpone(self, session: _Session, now: int) -> None:
        session.next_trial = now + session.pause
        session.pause = min(2 * session.pause, _LONGEST_PAUSE)

    def _called(self, session: _Session, names: Iterable[FourTuple]) -> str:
        """Paths and clients' addresses, for people."""
        paths = {name: self._path_of(session.token, name) for name in sorted(names)}
        session.named.update(name.remote for name in paths)
        return " and ".join(f"{each.path} ({name.remote})" if each else name.remote for name, each in paths.items())

    def _tell(self, session: _Session, kind: Kind, reason: str) -> None:
        self.counts[kind] += 1
        session.reason = reason


def _measure(session: _Session, readings: Readings, before: Readings, took: int) -> bool:
    """Note what has passed since the reading before; False if there is none."""
    found = {name: (each, before[name]) for name, each in readings.items() if name in before}
    passed = {name: (new, old) for name, (new, old) in found.items() if new.token == old.token}
    if not passed or took <= 0:
        return False
    rates = {name: (new.acked - old.acked) * SECOND / took for name, (new, old) in passed.items()}
    sending = {name: (new.sending_us - old.sending_us) * 1000 / took for name, (new, old) in passed.items()}
    for name, rate in rates.items():
        if rate:
            session.rates[name].append(max(rate, readings[name].delivery_rate))
    losing = frozenset(name for name, (new, old) in passed.items() if new.retransmitted != old.retransmitted)
    session.samples.append(_Sample(took, rates, sending, losing))
    return True


def _rate(bytes_per_second: float) -> str:
    return f"{8e-6 * bytes_per_second:.1f} Mbit/s"
