"""Decides which subflows of a session are a backup, from readings of all subflows: no sockets, kernel and clock.

A session is slower than its best path alone if its receiver waits for a worse path: the best subflow is idle, although
another one is sending all the time. Then those that do become backup, as a trial. The trial stays if the session's rate
grows, and is undone otherwise. A slower path that brings little while it sends all the time becomes backup before the
receiver waits for it. Paths that were left out are tried again after a pause, one by one. Every pause doubles.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
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
_GROWS = 1.5
"""A path in slow start brings so many times as much in the later half of some samples, or more."""
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
    readings: Readings = field(default_factory=dict)
    """The last ones."""
    recalled: set[FourTuple] = field(default_factory=set)
    """Those that were compared with what is learned."""
    rates: dict[FourTuple, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_CAPACITY)))
    samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=_BEFORE))
    left_out: dict[FourTuple, float] = field(default_factory=dict)
    """Those that this made backup, and the bytes per second that are missed with each: the next to be retried first."""
    tried: set[FourTuple] = field(default_factory=set)
    """Backups in a trial."""
    retried: set[FourTuple] = field(default_factory=set)
    """One that was left out, and is used to see whether it is of use now."""
    before: float = 0.0
    floor: float = _LEAST
    """What the session had with all paths when it was found to be better without, at most half of what it has without:
    paths that lose vary by themselves.
    """
    changed: int = 0
    joined: bool = False
    """Whether a path has joined since: what it brings says nothing about those that are tried."""
    is_refused: bool = False
    """Whether the kernel takes no decision about it."""
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
        return self.tried.union(self.left_out)

    @property
    def used(self) -> set[FourTuple]:
        """Those that neither the client nor this side has made backup, without the one that is retried."""
        return {name for name, each in self.readings.items() if not each.backup} - self.backups - self.retried

    @property
    def best(self) -> FourTuple:
        """The one in use that has shown most; raises ValueError if there is none."""
        return max(self.used, key=self.capacity)

    @property
    def is_busy(self) -> bool:
        """Whether the best one has been sending."""
        return self.sending(self.best) > _BUSY

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

    def is_growing(self, names: Collection[FourTuple]) -> bool:
        """Whether these may be in slow start, and may bring more than all others in the end."""
        rates = self.brought(names)
        half = len(rates) // 2
        return half == 0 or sum(rates[-half:]) > _GROWS * sum(rates[:half])

    def brought_little(self, names: Collection[FourTuple]) -> bool:
        """Whether these brought little in all samples, also with what is missed since others were left out."""
        total, missed = self.total(_BEFORE), sum(self.left_out.values())
        return total + missed < self.gain(names) * (total - fmean(self.brought(names)))

    def little(self, names: Iterable[FourTuple]) -> list[FourTuple]:
        """Those of these that brought little, also together."""
        found: list[FourTuple] = []
        for name in sorted(names, key=lambda each: sum(self.brought([each]))):
            if self.brought_little([*found, name]) and not self.is_growing([name]):
                found.append(name)
        return found

    def begin(self, now: int) -> None:
        """A trial has begun."""
        # The session may have paused before the last readings.
        self.before = max(self.total(_BEFORE), self.total(_IN_A_ROW))
        self.samples.clear()
        self.changed, self.joined = now, False

    def is_over(self, now: int) -> bool:
        """Whether a trial can be judged; what was measured before it took effect is dropped."""
        passed, last = now - self.changed, self.samples[-1]
        round_trip = 1000 * max(self.readings[name].rtt_us for name in self.tried | self.retried)
        has_rest = any(last.sending.get(name, 0.0) > _IDLE for name in self.backups)
        settles = _SETTLES_AT_MOST if has_rest else max(_SETTLES, _ROUND_TRIPS * round_trip)
        if passed < min(settles, _SETTLES_AT_MOST):
            self.samples.clear()
            return False
        # That the best path waits again is soon seen, and costs much.
        return self.shows(_JUDGED // 2 if self.retried and not self.is_busy else _JUDGED)

    def use_all(self) -> None:
        """There is no backup any more."""
        self.left_out, self.tried, self.retried = {}, set(), set()


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
        self._own: set[int] = set()
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
        # Those that this host has begun, as a converter to the next one, also when their first subflow has ended.
        begun = {traffic.token for traffic in readings.values() if traffic.is_own}
        self._own = begun | (self._own & by_token.keys())
        for token in self._own:
            del by_token[token]
        # Where one path is left, that one is in use.
        self._sessions = {token: each for token, each in self._sessions.items() if len(by_token.get(token, ())) > 1}
        then, before = self._before
        is_apart = now - then >= _APART
        changes = []
        for token, there in by_token.items():
            made = set() if self._is_dry else {name for name, each in there.items() if each.made_backup}
            wanted: set[FourTuple] = set()
            if len(there) > 1:
                session = self._sessions.setdefault(token, _Session(token))
                self._follow(session, there, made, now)
                if is_apart and _measure(session, before, now - then):
                    self._judge(session, now)
                wanted = session.backups
            changes += [Change(token, name, name in wanted) for name in sorted(made ^ wanted)]
        if is_apart:
            self._before = now, readings
        return changes

    def _follow(self, session: _Session, readings: Readings, made: set[FourTuple], now: int) -> None:
        """Take up what has come, what has gone, and what the kernel has not ``made`` a backup."""
        for gone in session.readings.keys() - readings.keys():
            session.rates.pop(gone, None)
            session.recalled.discard(gone)
            session.left_out.pop(gone, None)
            session.tried.discard(gone)
            session.retried.discard(gone)
        session.joined |= not readings.keys() <= session.readings.keys()
        session.readings = readings
        self.counts.update(Kind.LEFT for _ in made - session.backups)
        if not session.backups <= made:
            # What it did take is used again: this session is not asked for any more.
            session.use_all()
            session.is_refused = True
            self._tell(session, Kind.REFUSED, "it began before pm_type was 1: the kernel takes no decision about it")
        used = session.used
        if not used and (session.backups or session.retried):
            self._free(session, now, "what is no backup is gone, or one by the client's will")
        elif len(used) > 1 and not self._is_dry and not session.is_refused and not used <= session.recalled:
            self._recall(session, now)

    def _recall(self, session: _Session, now: int) -> None:
        """Leave out what earlier sessions were better without."""
        paths, readings = self._paths(session, session.used), session.readings
        for name, where in paths.items():
            others = [each for each in paths if each != name and each not in session.left_out]
            since = self.learned.worse_since(where, [paths[each] for each in others], now)
            if since is not None and readings[name].acked > max(readings[each].acked for each in others):
                # It began the session, and brings a short download before another one has caught up.
                continue
            session.recalled.add(name)
            if since is not None:
                session.left_out[name] = 0.0
                session.next_retry = max(session.next_retry, since + _LEFT_OUT, now + _UNMEASURED)
                text = f"{self._called(session, [name])} is a backup: earlier sessions were faster without"
                self._tell(session, Kind.LEARNED, text)

    def _judge(self, session: _Session, now: int) -> None:
        if not session.used or session.is_refused:
            return
        if not session.tried and not session.retried:
            self._watch(session, now)
        elif session.is_over(now):
            (self._end_trial if session.tried else self._end_retry)(session, now)

    def _watch(self, session: _Session, now: int) -> None:
        if not session.shows(_IN_A_ROW):
            return
        total = session.total(_IN_A_ROW)
        if session.left_out and session.is_busy and total < _CLEARLY * session.floor:
            self._forget(session, session.backups)
            text = f"{_rate(total)} without the others, less than {_rate(session.floor)}: all are used again"
            self._free(session, now, text)
        elif session.left_out and now >= session.next_retry:
            self._retry(session, now)
        elif now >= session.next_trial and total > _LEAST:
            self._compare(session, now)

    def _compare(self, session: _Session, now: int) -> None:
        """Find out whether the paths that always send are worth it, beside the best one."""
        best, used, total = session.best, session.used, session.total(_IN_A_ROW)
        others = [name for name in used if name != best and session.sending(name) > _BUSY]
        # What has never lost anything was not asked for all that it can bring.
        asked = [name for name in others if session.readings[name].retransmitted]
        slower = [name for name in asked if session.readings[name].rtt_us > session.readings[best].rtt_us]
        capacity, idle = session.capacity(best), 1 - session.sending(best, max)
        if session.is_busy and session.shows(_JUDGED) and (little := session.little(slower)):
            shown = f"{_rate(fmean(session.brought(little)))} of {_rate(session.total(_BEFORE))}"
            self._do_without(session, Kind.UNTRIED, little, now, f"{shown} came by what is slower and always sends")
        elif others and idle > _IDLE and total < _CLEARLY * sum(map(session.capacity, used.difference(others))):
            waits = f"is idle {100 * idle:.0f} % of the time or more while others send"
            text = f"{self._called(session, [best])} has shown {_rate(capacity)}, and {waits}: {_rate(total)} in all"
            # If all wait for what the others have under way, they would in a trial.
            kind = Kind.UNTRIED if asked and total < _IDLE * capacity else Kind.TRIAL
            self._do_without(session, kind, others, now, text)

    def _do_without(self, session: _Session, kind: Kind, others: list[FourTuple], now: int, text: str) -> None:
        """Make backups for a trial, or without one where it could cost as much as they bring."""
        called, is_trial = self._called(session, others), kind is Kind.TRIAL
        if self._is_dry:
            self._postpone(session, now)
            self._tell(session, kind, f"{text}; {called} would become a backup")
            return
        if is_trial:
            session.tried = set(others)
            session.begin(now)
        else:
            missed = {name: fmean(session.brought([name])) for name in others}
            self._leave_out(session, missed, session.total(_BEFORE) / 2, now)
            session.samples.clear()
        self._tell(session, kind, f"{text}: {called} is a backup{', for a trial' if is_trial else ''}")

    def _end_trial(self, session: _Session, now: int) -> None:
        after, tried = session.total(_JUDGED), session.tried
        text = f"{_rate(after)} without {self._called(session, tried)}, {_rate(session.before)} with"
        # If the best path still pauses, the sender has no more, or had less before.
        is_better = after >= _GAIN * session.before and session.is_busy
        session.tried = set()
        # What the session has found out itself counts more than what earlier ones did.
        session.recalled |= tried
        if is_better and not session.joined:
            self._leave_out(session, dict.fromkeys(tried, 0.0), min(session.before, after / 2), now)
            self._tell(session, Kind.KEPT, f"{text}: a backup")
        else:
            self._postpone(session, now)
            self._tell(session, Kind.UNDONE, f"{text}: used")

    def _leave_out(self, session: _Session, missed: Mapping[FourTuple, float], floor: float, now: int) -> None:
        session.left_out.update(missed)
        session.floor = floor
        session.next_trial = now + session.pause
        session.next_retry, session.retry_pause = now + _LEFT_OUT, 2 * _LEFT_OUT
        self._learn(session, missed, now)

    def _retry(self, session: _Session, now: int) -> None:
        """Use one of those that are left out: beside another one it could not show what it brings."""
        session.next_retry = now + session.retry_pause
        if max(map(session.sending, session.readings)) < _BUSY:
            # It has too little to send to show anything.
            return
        name = next(iter(session.left_out))
        del session.left_out[name]
        session.retried = {name}
        session.begin(now)
        self._tell(session, Kind.RETRY, f"{self._called(session, [name])} is used again, to see whether it is of use")

    def _end_retry(self, session: _Session, now: int) -> None:
        after, tried = session.total(_JUDGED), session.retried
        text = f"{_rate(after)} with {self._called(session, tried)}, {_rate(session.before)} without"
        # Without the second condition it is another path that has become faster.
        is_better = after >= session.gain(tried) * session.before and not session.brought_little(tried)
        if not is_better and after >= session.before and session.is_growing(tried):
            return
        session.retried = set()
        if is_better and not session.joined:
            self._postpone(session, now)
            self._forget(session, tried)
            self._tell(session, Kind.FREED, f"{text}: used")
            return
        session.left_out |= dict.fromkeys(tried, fmean(session.brought(tried)))
        session.next_retry = now + session.retry_pause
        session.retry_pause = min(2 * session.retry_pause, _LONGEST_PAUSE)
        if max(map(session.sending, session.readings)) >= _BUSY and not session.joined:
            # Otherwise it paused meanwhile, or got another path: it may have more with all than that.
            session.floor = min(after, session.before / 2)
            self._learn(session, tried, now)
        self._tell(session, Kind.BACK, f"{text}: still a backup")

    def _free(self, session: _Session, now: int, text: str) -> None:
        session.use_all()
        self._postpone(session, now)
        # What the paths had shown until now is over.
        session.rates.clear()
        session.samples.clear()
        self._tell(session, Kind.WORSE, text)

    def _learn(self, session: _Session, worse: Iterable[FourTuple], now: int) -> None:
        paths = self._paths(session, {*worse, session.best})
        if better := paths.pop(session.best, None):
            for where in paths.values():
                self.learned.learn(where, better, now)

    def _forget(self, session: _Session, names: set[FourTuple]) -> None:
        """Forget what was learned of these, beside whichever path."""
        paths = self._paths(session, session.readings)
        for name in names & paths.keys():
            for beside in paths.values():
                self.learned.forget(paths[name], beside)

    def _paths(self, session: _Session, names: Iterable[FourTuple]) -> dict[FourTuple, ClientPath]:
        """As far as they are known."""
        return {name: where for name in names if (where := self._path_of(session.token, name))}

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


def _measure(session: _Session, before: Readings, took: int) -> bool:
    """Note what has passed since the reading before; False if there is none."""
    found = {name: (each, before[name]) for name, each in session.readings.items() if name in before}
    passed = {name: (new, old) for name, (new, old) in found.items() if new.token == old.token}
    if not passed or took <= 0:
        return False
    rates = {name: (new.acked - old.acked) * SECOND / took for name, (new, old) in passed.items()}
    sending = {name: (new.sending_us - old.sending_us) * 1000 / took for name, (new, old) in passed.items()}
    for name, rate in rates.items():
        if rate:
            session.rates[name].append(max(rate, session.readings[name].delivery_rate))
    losing = frozenset(name for name, (new, old) in passed.items() if new.retransmitted != old.retransmitted)
    session.samples.append(_Sample(took, rates, sending, losing))
    return True


def _rate(bytes_per_second: float) -> str:
    return f"{8e-6 * bytes_per_second:.1f} Mbit/s"
