"""From events to plans: the throttler without its sockets, kernel and clock."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime

from throttler.policy.decide import Hold, Matcher, Moment, Owner
from throttler.policy.model import Policy
from throttler.policy.quotas import SECOND, Quotas, Use
from throttler.policy.windows import active_rules
from throttler.service.events import CounterRead, Emptied, EngineEvent, InterfacesAre, PolicyChanged, Stopping
from throttler.service.snapshot import Question, Snapshot, Verdict
from throttler.sessions import Sessions
from throttler.shaping.layout import Layout, layout
from throttler.shaping.plan import Ledger, Placed, Plan
from tributary.mptcp.four_tuple import FourTuple


class Engine:
    """Events and the time go in, plans come out; what the counters show that a plan says to read is an event, too.

    There are two clocks: ``now``, in nanoseconds, only goes forward; ``local``, the calendar's time here, may be set.

    It takes each plan as done. When one fails, all is taken down, and ``Emptied`` brings what is to stand again.
    """

    def __init__(self, policy: Policy, quotas: Quotas, local: Callable[[], datetime]) -> None:
        self._local = local
        self._sessions = Sessions()
        # None until it is told.
        self._interfaces: frozenset[str] | None = None
        self._absent: frozenset[str] = frozenset()
        self._ledger = Ledger(per_client=policy.limits.classes_per_client)
        self._quotas = quotas
        self._matcher = Matcher(policy)
        self._layout = layout(policy)
        self._moment = self._moment_now()
        self._subflows_by_rule: Counter[str] = Counter()
        self._matches_by_rule: Counter[str] = Counter()
        self._subflows_by_path: Counter[str] = Counter()
        self._throttled_by_path: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._metered: dict[int, Placed] = {}
        self._verdicts: dict[int, tuple[Verdict, ...]] = {}
        self._next_minute = 0
        self._is_laid_out = False

    @property
    def deadline(self) -> int:
        """When ``see`` has something to do though nothing happens."""
        due = (self._next_minute, self._ledger.next_close, self._quotas.next_reading)
        return min(each for each in due if each is not None)

    def see(self, events: Iterable[EngineEvent], now: int) -> Plan:
        """What to do after ``events``, which are in the order of their time, and because it is ``now``."""
        touched: set[int] = set()
        look_at_all, read_all = False, False
        may_differ = now >= self._next_minute
        if may_differ:
            touched.update(*map(self._ledger.sharers, self._begin_minute(now)))
        for event in events:
            match event:
                case CounterRead():
                    touched |= self._read(event, now)
                case PolicyChanged():
                    self._adopt(event.policy, now)
                    look_at_all = True
                case InterfacesAre():
                    touched |= self._on_others(event.names)
                case Emptied():
                    self._start_afresh()
                    look_at_all = True
                case Stopping():
                    read_all = True
                case _:
                    touched |= self._sessions.apply(event)
        moment = self._moment_now() if may_differ or look_at_all else self._moment
        if look_at_all or moment.rules != self._moment.rules:
            self._moment = moment
            touched.update(session.token for session in self._sessions)
        return self._plan(touched, now, read_all)

    def known(self) -> dict[FourTuple, int]:
        """All subflows, each with its session's token."""
        return self._sessions.known()

    def on_interfaces(self, names: Collection[str]) -> list[FourTuple]:
        """The subflows on these interfaces."""
        return [one.name for session in self._sessions for one in session.subflows if one.interface in names]

    def used_of_quotas(self) -> list[Use]:
        """What is to outlive the daemon, for ``Quotas.load``."""
        return self._quotas.used()

    def snapshot(self) -> Snapshot:
        """All that reports tell."""
        ledger = self._ledger
        return Snapshot(
            policy=self._matcher.policy,
            devices=self._layout.devices,
            absent=self._absent,
            moment=self._moment,
            exhausted=frozenset(self._quotas.exhausted),
            sessions=tuple(self._sessions),
            subflows_total=self._sessions.subflows,
            throttled_total=ledger.elements,
            classes=dict(ledger.classes),
            verdicts=self._verdicts.copy(),
            held=dict(ledger.held),
            subflows_by_rule=self._subflows_by_rule.copy(),
            matches_by_rule=self._matches_by_rule.copy(),
            subflows_by_path=self._subflows_by_path.copy(),
            throttled_by_path=self._throttled_by_path.copy(),
            used=self._quotas.used(),
            counts=self._counts + self._sessions.unexpected,
            shared=ledger.shared,
            refused=ledger.refused,
            unmapped=ledger.unmapped,
        )

    def of_session(self, token: int) -> Question | None:
        """What to ask the policy about the subflows of a session, None if there is no such session."""
        session = self._sessions.get(token)
        return Question(self._matcher, self._moment, session, session.subflows) if session else None

    def of_subflow(self, name: FourTuple) -> Question | None:
        """What to ask the policy about one subflow, None if there is no such subflow."""
        session = self._sessions.with_subflow(name)
        if session is None:
            return None
        found = tuple(subflow for subflow in session.subflows if subflow.name == name)
        return Question(self._matcher, self._moment, session, found)

    # Events

    def _begin_minute(self, now: int) -> list[Owner]:
        """A minute of the calendar begins, with which rules come into force; returns whose quota is whole again."""
        local = self._local()
        self._next_minute = now + (60 - local.second) * SECOND
        return self._quotas.renew(local)

    def _read(self, event: CounterRead, now: int) -> set[int]:
        """The sessions of the owner whose quota has just been exhausted."""
        exhausted = None if event.sent is None else self._quotas.read(event.minor, event.sent, now, self._local())
        if event.minor not in self._metered:
            # It was read for the last time: the plan that asked for it closed the class.
            self._quotas.close(event.minor)
        return set(self._ledger.sharers(exhausted)) if exhausted else set()

    def _adopt(self, policy: Policy, now: int) -> None:
        self._matcher = Matcher(policy)
        self._quotas.keep(policy.rules)
        metered = {rule.name for rule in policy.rules if rule.quota is not None}
        self._metered = {minor: placed for minor, placed in self._metered.items() if placed.place.owner.rule in metered}
        self._meter((each.placed for each in self._ledger.classes.values()), now, are_new=False)
        self._ledger.per_client = policy.limits.classes_per_client
        self._lay_out(self._layout)

    def _start_afresh(self) -> None:
        self._ledger = Ledger(per_client=self._matcher.policy.limits.classes_per_client)
        # Without the links of policies before: their interfaces may be what failed.
        self._lay_out(None)
        self._quotas.forget_counters()
        self._metered.clear()
        self._counts["resets"] += 1

    def _on_others(self, names: frozenset[str]) -> set[int]:
        """The sessions with subflows on interfaces that went away or came."""
        changed = names.symmetric_difference(self._interfaces or ()) & set(self._matcher.policy.interfaces)
        self._interfaces = names
        if changed:
            # What no plan has said stands nowhere.
            self._lay_out(self._layout if self._is_laid_out else None)
        return {session.token for session in self._sessions for one in session.subflows if one.interface in changed}

    def _lay_out(self, before: Layout | None) -> None:
        wanted = frozenset(self._matcher.policy.interfaces)
        self._absent = wanted - self._interfaces if self._interfaces is not None else frozenset()
        self._ledger.lose(self._absent)
        self._layout = layout(self._matcher.policy, before, self._absent)
        self._is_laid_out = False

    def _moment_now(self) -> Moment:
        return Moment(active_rules(self._matcher.policy.rules, self._local()), self._quotas.exhausted)

    # Plans

    def _plan(self, tokens: Iterable[int], now: int, read_all: bool) -> Plan:
        plan = self._ledger.step({token: self._decide(token) for token in tokens}, now)
        self._meter((*plan.open, *plan.change), now)
        self._counts["elements added"] += len(plan.enter)
        self._counts["elements removed"] += len(plan.leave)
        for lost in plan.lost:
            self._metered.pop(lost.minor, None)
            self._quotas.close(lost.minor)
        read = self._readings(plan.close, now, read_all)
        new_layout: Layout | None = None if self._is_laid_out else self._layout
        self._is_laid_out = True
        return replace(plan, read=read, layout=new_layout) if read or new_layout else plan

    def _readings(self, closed: Iterable[Placed], now: int, read_all: bool) -> tuple[Placed, ...]:
        """The metered classes whose counters are due, and those that are read for the last time."""
        last = [placed.minor for placed in closed]
        minors = self._metered if read_all else dict.fromkeys((*self._quotas.due(now), *last))
        read = tuple(self._metered[minor] for minor in minors if minor in self._metered)
        for minor in last:
            self._metered.pop(minor, None)
        return read

    def _decide(self, token: int) -> list[Hold]:
        session = self._sessions.get(token)
        holds: list[Hold] = []
        verdicts: list[Verdict] = []
        for subflow in session.subflows if session else ():
            assert session is not None
            rule = self._matcher.rule(session, subflow, self._moment)
            is_held = rule and subflow.interface not in self._absent
            wanted = self._matcher.holds(rule, session, subflow, self._moment) if rule and is_held else ()
            holds += wanted
            path = self._matcher.path(subflow)
            verdicts.append(Verdict(subflow.name, path, rule.name if rule else None, bool(wanted)))
        self._note(token, tuple(verdicts))
        return holds

    def _note(self, token: int, verdicts: tuple[Verdict, ...]) -> None:
        before = self._verdicts.pop(token, ())
        if verdicts:
            self._verdicts[token] = verdicts
        for count, seen in ((Counter.subtract, before), (Counter.update, verdicts)):
            count(self._subflows_by_rule, (verdict.rule for verdict in seen if verdict.rule))
            count(self._subflows_by_path, (verdict.path for verdict in seen if verdict.path))
            count(self._throttled_by_path, (verdict.path for verdict in seen if verdict.path and verdict.throttled))
        self._matches_by_rule.update(new.rule for new in verdicts if new.rule and new not in before)

    def _meter(self, classes: Iterable[Placed], now: int, are_new: bool = True) -> None:
        rules = {rule.name: rule for rule in self._matcher.policy.rules if rule.quota is not None}
        if not rules:
            return
        for placed in classes:
            rule = rules.get(placed.place.owner.rule)
            if rule is not None:
                self._metered[placed.minor] = placed
                self._quotas.open(placed.minor, placed.place.owner, rule, now, self._local(), are_new)
