"""From events to plans: the throttler's logic, without sockets, kernel and clock."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from throttler.policy.decide import Assignment, EvaluationContext, Matcher, Owner, active_rules
from throttler.policy.model import Policy
from throttler.policy.quotas import SECOND, Quotas
from throttler.service.events import CounterRead, EngineEvent, InterfacesChanged, KernelReset, PolicyChanged, Shutdown
from throttler.service.snapshot import Decision, ExplainQuery, Snapshot
from throttler.sessions import Session, Sessions, Subflow
from throttler.shaping.plan import ClassTable, HtbClass, Plan
from throttler.shaping.topology import Topology, topology
from tributary.mptcp.four_tuple import FourTuple


class Engine:
    """Takes events and the time, returns plans; readings of the counters that a plan names are events, too.

    There are two clocks: ``now``, monotonic, in nanoseconds; ``local``, the local calendar time, which may be set.

    It counts each plan as done. When one fails, everything is removed, and ``KernelReset`` plans all of it again.
    """

    def __init__(self, policy: Policy, quotas: Quotas, local: Callable[[], datetime]) -> None:
        self._local = local
        self.sessions = Sessions()
        # None until the first InterfacesChanged.
        self._interfaces: frozenset[str] | None = None
        self._absent: frozenset[str] = frozenset()
        self._class_table = ClassTable(per_client=policy.limits.classes_per_client)
        self.quotas = quotas
        self._matcher = Matcher(policy)
        self._topology = topology(policy)
        self._context = self._current_context()
        self._matches_by_rule: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._metered: dict[int, HtbClass] = {}
        self._decisions: dict[int, tuple[Decision, ...]] = {}
        self._next_minute = 0
        self._is_topology_planned = False

    @property
    def deadline(self) -> int:
        """When ``handle`` is due without any event."""
        due = (self._next_minute, self._class_table.next_close, self.quotas.next_reading)
        return min(each for each in due if each is not None)

    def handle(self, events: Iterable[EngineEvent], now: int) -> Plan:
        """The plan that follows from ``events``, in order of time, and from the time ``now``."""
        touched: set[int] = set()
        look_at_all, read_all = False, False
        may_differ = now >= self._next_minute
        if may_differ:
            touched.update(*map(self._class_table.sharers, self._begin_minute(now)))
        for event in events:
            match event:
                case CounterRead():
                    touched |= self._read(event, now)
                case PolicyChanged():
                    self._set_policy(event.policy, now)
                    look_at_all = True
                case InterfacesChanged():
                    touched |= self._set_interfaces(event.names)
                case KernelReset():
                    self._reset()
                    look_at_all = True
                case Shutdown():
                    read_all = True
                case _:
                    touched |= self.sessions.apply(event)
        context = self._current_context() if may_differ or look_at_all else self._context
        if look_at_all or context.rules != self._context.rules:
            self._context = context
            touched.update(session.token for session in self.sessions)
        return self._plan(touched, now, read_all)

    def snapshot(self) -> Snapshot:
        """Everything that reports show."""
        table = self._class_table
        return Snapshot(
            policy=self._matcher.policy,
            devices=self._topology.devices,
            absent=self._absent,
            context=self._context,
            exhausted=frozenset(self.quotas.exhausted),
            sessions=tuple(self.sessions),
            subflows_total=self.sessions.subflows,
            throttled_total=table.elements,
            classes=dict(table.classes),
            decisions=self._decisions.copy(),
            class_keys=dict(table.class_keys),
            matches_by_rule=self._matches_by_rule.copy(),
            used=self.quotas.used(),
            counts=self._counts + self.sessions.unexpected,
            shared=table.shared,
            refused=table.refused,
            unmapped=table.unmapped,
        )

    def query(self, session: Session, only: FourTuple | None = None) -> ExplainQuery:
        """The query for a session's subflows, or ``only`` for one of them."""
        subflows = tuple(each for each in session.subflows if only in (None, each.name))
        return ExplainQuery(self._matcher, self._context, session, subflows)

    def path(self, subflow: Subflow) -> str | None:
        """The policy's path that a subflow takes, None if it takes none."""
        return self._matcher.path(subflow)

    # Events

    def _begin_minute(self, now: int) -> list[Owner]:
        """Start a new minute, in which rules may become active; returns the owners whose quota starts again."""
        local = self._local()
        self._next_minute = now + (60 - local.second) * SECOND
        return self.quotas.renew(local)

    def _read(self, event: CounterRead, now: int) -> set[int]:
        """The sessions of the owner whose quota has just been exhausted."""
        exhausted = None if event.sent is None else self.quotas.read(event.minor, event.sent, now, self._local())
        if event.minor not in self._metered:
            # This was its last reading: the plan that asked for it closed the class.
            self.quotas.close(event.minor)
        return set(self._class_table.sharers(exhausted)) if exhausted else set()

    def _set_policy(self, policy: Policy, now: int) -> None:
        self._matcher = Matcher(policy)
        self.quotas.set_rules(policy.rules)
        metered = {rule.name for rule in policy.rules if rule.quota is not None}
        self._metered = {minor: htb for minor, htb in self._metered.items() if htb.key.owner.rule in metered}
        self._meter((each.htb for each in self._class_table.classes.values()), now, are_new=False)
        self._class_table.per_client = policy.limits.classes_per_client
        self._plan_topology(self._topology)

    def _reset(self) -> None:
        self._class_table = ClassTable(per_client=self._matcher.policy.limits.classes_per_client)
        # Without the links of policies before: their interfaces may be what failed.
        self._plan_topology(None)
        self.quotas.forget_counters()
        self._metered.clear()
        self._counts["resets"] += 1

    def _set_interfaces(self, names: frozenset[str]) -> set[int]:
        """The sessions with subflows on interfaces that went away or came."""
        changed = names.symmetric_difference(self._interfaces or ()) & set(self._matcher.policy.interfaces)
        self._interfaces = names
        if changed:
            # Links that no plan contains are not installed.
            self._plan_topology(self._topology if self._is_topology_planned else None)
        return {session.token for session in self.sessions for one in session.subflows if one.interface in changed}

    def _plan_topology(self, before: Topology | None) -> None:
        wanted = frozenset(self._matcher.policy.interfaces)
        self._absent = wanted - self._interfaces if self._interfaces is not None else frozenset()
        self._class_table.set_absent(self._absent)
        self._topology = topology(self._matcher.policy, before, self._absent)
        self._is_topology_planned = False

    def _current_context(self) -> EvaluationContext:
        return EvaluationContext(active_rules(self._matcher.policy.rules, self._local()), self.quotas.exhausted)

    # Plans

    def _plan(self, tokens: Iterable[int], now: int, read_all: bool) -> Plan:
        plan = self._class_table.step({token: self._decide(token) for token in tokens}, now)
        self._meter((*plan.open, *plan.change), now)
        self._counts["elements added"] += len(plan.add)
        self._counts["elements removed"] += len(plan.remove)
        for lost in plan.lost:
            self._metered.pop(lost.minor, None)
            self.quotas.close(lost.minor)
        read = self._readings(plan.close, now, read_all)
        new_topology: Topology | None = None if self._is_topology_planned else self._topology
        self._is_topology_planned = True
        return replace(plan, read=read, topology=new_topology) if read or new_topology else plan

    def _readings(self, closed: Iterable[HtbClass], now: int, read_all: bool) -> tuple[HtbClass, ...]:
        """The metered classes whose counters are due, and closed ones for their last reading."""
        last = [htb.minor for htb in closed]
        minors = self._metered if read_all else dict.fromkeys((*self.quotas.due(now), *last))
        read = tuple(self._metered[minor] for minor in minors if minor in self._metered)
        for minor in last:
            self._metered.pop(minor, None)
        return read

    def _decide(self, token: int) -> list[Assignment]:
        session = self.sessions.get(token)
        assignments: list[Assignment] = []
        decisions: list[Decision] = []
        for subflow in session.subflows if session else ():
            assert session is not None
            rule = self._matcher.rule(session, subflow, self._context)
            is_present = rule and subflow.interface not in self._absent
            wanted = self._matcher.assignments(rule, session, subflow, self._context) if rule and is_present else ()
            assignments += wanted
            path = self._matcher.path(subflow)
            decisions.append(Decision(subflow.name, path, rule.name if rule else None, bool(wanted)))
        before = self._decisions.pop(token, ())
        if decisions:
            self._decisions[token] = tuple(decisions)
        self._matches_by_rule.update(new.rule for new in decisions if new.rule and new not in before)
        return assignments

    def _meter(self, classes: Iterable[HtbClass], now: int, are_new: bool = True) -> None:
        rules = {rule.name: rule for rule in self._matcher.policy.rules if rule.quota is not None}
        if not rules:
            return
        for htb in classes:
            rule = rules.get(htb.key.owner.rule)
            if rule is not None:
                self._metered[htb.minor] = htb
                self.quotas.open(htb.minor, htb.key.owner, rule, now, self._local(), are_new)
