"""From events to plans: the throttler without its sockets, kernel and clock."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from throttler.policy.decide import Hold, Matcher, Moment, Reason
from throttler.policy.model import Policy
from throttler.policy.quotas import SECOND, Quotas
from throttler.policy.windows import in_force
from throttler.sessions import Session, Sessions
from throttler.shaping.layout import Layout, layout
from throttler.shaping.plan import Ledger, Placed, Plan
from tributary.mptcp.events import Event
from tributary.mptcp.four_tuple import FourTuple


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about a subflow: its path, and the rule that applies, if any do."""

    subflow: FourTuple
    path: str | None
    rule: str | None
    held: bool


class Engine:
    """Feed it events and the time, carry out the plans that it gives.

    There are two clocks: ``now``, in nanoseconds, only goes forward; ``local``, the calendar's time here, may be set.

    It takes each plan as done; when one fails, ``start_afresh`` says what to install into an empty kernel.
    """

    def __init__(self, policy: Policy, quotas: Quotas, local: Callable[[], datetime]) -> None:
        self._local = local
        self.sessions = Sessions()
        self.ledger = Ledger()
        self.quotas = quotas
        self.matcher = Matcher(policy)
        self.layout = layout(policy)
        self.moment = Moment(in_force(policy.rules, local()), quotas.spent)
        self.set_live: frozenset[str] = frozenset()
        self.subflows_by_rule: Counter[str] = Counter()
        self.matches_by_rule: Counter[str] = Counter()
        self.subflows_by_path: Counter[str] = Counter()
        self.held_by_path: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.metered: dict[int, Placed] = {}
        self._verdicts: dict[int, tuple[Verdict, ...]] = {}
        self._next_minute = 0

    @property
    def policy(self) -> Policy:
        """The policy that it decides by."""
        return self.matcher.policy

    def see(self, events: Iterable[Event], now: int) -> Plan:
        """What to change after ``events``, which are in the order of their time."""
        touched = set()
        for event in events:
            self.sessions.apply(event)
            touched.add(event.token)
        return self._step(touched, now)

    def tick(self, now: int) -> Plan:
        """What to change because time went by."""
        if now < self._next_minute:
            return self._step((), now)
        local = self._local()
        self._next_minute = now + (60 - local.second) * SECOND
        self.quotas.renew(local)
        return self._reconsider(now)

    def next_tick(self) -> int:
        """When ``tick`` has something to do at the latest."""
        return min(self._next_minute, self.ledger.next_close or self._next_minute)

    def read(self, minor: int, total: int, now: int) -> bool:
        """The class ``minor`` has sent ``total`` bytes of IP; returns whether a quota has just been spent."""
        return self.quotas.read(minor, total, now, self._local())

    def close(self, minor: int) -> None:
        """The class ``minor`` was read for the last time."""
        self.quotas.close(minor)
        self.metered.pop(minor, None)

    def spend(self, now: int) -> Plan:
        """What to change because a quota has been spent."""
        return self._reconsider(now)

    def adopt(self, policy: Policy, set_live: frozenset[str], now: int) -> Layout:
        """From now on decide by ``policy``; returns what is to stand in the kernel before ``decide_anew``'s plan.

        ``set_live`` names the rules that are not those of the policy's file.
        """
        self.matcher = Matcher(policy)
        self.set_live = set_live
        self.quotas.keep(policy.rules)
        metered = {rule.name for rule in policy.rules if rule.quota is not None}
        self.metered = {minor: placed for minor, placed in self.metered.items() if placed.place.owner.rule in metered}
        self._meter((placed for placed, _ in self.ledger.classes()), now, are_new=False)
        self.layout = layout(policy, self.layout)
        self.moment = Moment(in_force(policy.rules, self._local()), self.quotas.spent)
        return self.layout

    def decide_anew(self, now: int) -> Plan:
        """What to change when every session is looked at again."""
        return self._step([session.token for session in self.sessions], now)

    def start_afresh(self, now: int) -> Plan:
        """Nothing is installed any more; what to install."""
        self.ledger = Ledger()
        # Without the links of policies before: their interfaces may be what failed.
        self.layout = layout(self.policy)
        self.quotas.forget_counters()
        self.metered.clear()
        self.counts["fresh starts"] += 1
        return self.decide_anew(now)

    def explain(self, session: Session) -> Iterator[tuple[FourTuple, list[Reason]]]:
        """What each rule says of each subflow of ``session``."""
        for subflow in session.subflows:
            yield subflow.name, self.matcher.explain(session, subflow, self.moment)

    def verdicts(self, token: int) -> tuple[Verdict, ...]:
        """What was decided about the session's subflows."""
        return self._verdicts.get(token, ())

    def _reconsider(self, now: int) -> Plan:
        """Look at every session again if what the rules say can have changed."""
        moment = Moment(in_force(self.policy.rules, self._local()), self.quotas.spent)
        if moment == self.moment:
            return self._step((), now)
        self.moment = moment
        return self.decide_anew(now)

    def _step(self, tokens: Iterable[int], now: int) -> Plan:
        plan = self.ledger.step({token: self._decide(token) for token in tokens}, now)
        self._meter(plan.open, now)
        self._meter(plan.change, now)
        self.counts["elements added"] += len(plan.enter)
        self.counts["elements removed"] += len(plan.leave)
        return plan

    def _decide(self, token: int) -> list[Hold]:
        session = self.sessions.get(token)
        holds: list[Hold] = []
        verdicts: list[Verdict] = []
        for subflow in session.subflows if session else ():
            assert session is not None
            rule = self.matcher.rule(session, subflow, self.moment)
            wanted = self.matcher.holds(rule, session, subflow, self.moment) if rule else ()
            holds += wanted
            path = self.matcher.path(subflow)
            verdicts.append(Verdict(subflow.name, path, rule.name if rule else None, bool(wanted)))
        self._note(token, tuple(verdicts))
        return holds

    def _note(self, token: int, verdicts: tuple[Verdict, ...]) -> None:
        before = self._verdicts.pop(token, ())
        if verdicts:
            self._verdicts[token] = verdicts
        for count, seen in ((Counter.subtract, before), (Counter.update, verdicts)):
            count(self.subflows_by_rule, (verdict.rule for verdict in seen if verdict.rule))
            count(self.subflows_by_path, (verdict.path for verdict in seen if verdict.path))
            count(self.held_by_path, (verdict.path for verdict in seen if verdict.path and verdict.held))
        self.matches_by_rule.update(new.rule for new in verdicts if new.rule and new not in before)

    def _meter(self, classes: Iterable[Placed], now: int, are_new: bool = True) -> None:
        rules = {rule.name: rule for rule in self.policy.rules if rule.quota is not None}
        if not rules:
            return
        for placed in classes:
            rule = rules.get(placed.place.owner.rule)
            if rule is not None:
                self.metered[placed.minor] = placed
                self.quotas.open(placed.minor, placed.place.owner, rule, now, self._local(), are_new)
