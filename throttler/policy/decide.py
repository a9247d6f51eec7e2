"""Evaluates the policy for a subflow at a moment: the first rule whose every condition matches decides."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address

from throttler.policy.model import Policy, Rule
from throttler.policy.values import HIGHEST, Day, Direction, Networks, SharedBy, SubflowType
from throttler.sessions import Session, Subflow
from tributary.api.console import RuleResult
from tributary.mptcp.four_tuple import FourTuple
from tributary.wire.segments import client_of

_ADDRESSES_KEPT = 65_536
"""Cached look-ups of client addresses."""


@dataclass(frozen=True, slots=True)
class ClassRates:
    """HTB's parameters: bits per second, and the priority. Without a limit the rate is that of the link."""

    rate: int
    ceiling: int
    priority: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of classes: a subflow, session, client or rule; ``key`` is its 4-tuple, token, address or name."""

    rule: str
    shared_by: SharedBy
    key: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """Assigns one direction of a subflow to the class of ``owner`` on ``interface``.

    ``dscp`` is the code point to write into its packets, None for no change.
    """

    subflow: FourTuple
    interface: str
    direction: Direction
    owner: Owner
    rates: ClassRates
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """What a decision depends on besides the session: the active rules, and the owners whose quota is exhausted."""

    rules: frozenset[str]
    exhausted: Collection[Owner] = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """One key of a rule: whether it matches a subflow, and the message when it does not."""

    fits: Callable[[Session, Subflow], bool]
    complaint: Callable[[Session, Subflow], str]


class Matcher:
    """A policy, compiled for evaluation."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._rules = tuple((rule, tuple(self._conditions(rule))) for rule in policy.rules)
        # The narrower path first: one that names clients before one that takes the whole interface.
        self._paths = sorted(policy.paths.items(), key=lambda item: not item[1].clients)
        self._path_of = lru_cache(_ADDRESSES_KEPT)(self._find_path)

    def path(self, subflow: Subflow) -> str | None:
        """The name of the policy's path that ``subflow`` takes, None if it takes none."""
        return self._path_of(subflow.interface, subflow.name.remote)

    def rule(self, session: Session, subflow: Subflow, context: EvaluationContext) -> Rule | None:
        """The rule that applies to ``subflow``; None without one, or without a path."""
        if self.path(subflow) is None:
            return None
        for rule, conditions in self._rules:
            if rule.name in context.rules and all(condition.fits(session, subflow) for condition in conditions):
                return rule
        return None

    def assignments(
        self, rule: Rule, session: Session, subflow: Subflow, context: EvaluationContext
    ) -> tuple[Assignment, ...]:
        """The assignments of ``rule``, which applies to ``subflow``: one for each of its directions, if it acts."""
        if not rule.acts:
            return ()
        who, code = owner(rule, session, subflow), rule.dscp.code if rule.dscp else None
        where, exhausted = subflow.interface, who in context.exhausted
        return tuple(
            Assignment(subflow.name, where, way, who, self._rates(rule, where, way, exhausted), code)
            for way in rule.direction.each
        )

    def explain(self, session: Session, subflow: Subflow, context: EvaluationContext) -> list[RuleResult]:
        """The result of each rule for ``subflow``, up to the one that applies."""
        reasons = []
        for rule, conditions in self._rules:
            unmet = (one.complaint(session, subflow) for one in conditions if not one.fits(session, subflow))
            mismatch = next(unmet, None)
            if rule.name not in context.rules:
                mismatch = "it is not active now: " + " ".join(map(str, (*rule.days, rule.hours or "all day")))
            if self.path(subflow) is None:
                mismatch = f"it takes no path: its interface is {subflow.interface or 'not known'}"
            reasons.append(RuleResult(rule=rule.name, applies=mismatch is None, reason=mismatch))
            if mismatch is None:
                break
        return reasons

    def _rates(self, rule: Rule, interface: str, way: Direction, exhausted: bool) -> ClassRates:
        if exhausted and rule.over_quota_rate is not None:
            return ClassRates(rule.over_quota_rate.amount, rule.over_quota_rate.amount, rule.priority)
        link = self.policy.link_rate(interface, way) or HIGHEST
        rate = rule.rate or link
        ceiling = (rule.ceiling or link) if rule.borrow else rate
        return ClassRates(rate.amount, max(rate, ceiling).amount, rule.priority)

    def _find_path(self, interface: str, remote: str) -> str | None:
        for name, path in self._paths:
            if path.interface == interface and (not path.clients or _inside(remote, path.clients)):
                return name
        return None

    def _conditions(self, rule: Rule) -> Iterator[Condition]:
        """The conditions of ``rule``, the cheap ones first."""
        least, most = rule.min_subflows, rule.max_subflows
        yield Condition(
            lambda session, _: session.active >= least,
            lambda session, _: f"its session has {session.active} active subflows, not {least} or more",
        )
        if most is not None:
            yield Condition(
                lambda session, _: session.active <= most,
                lambda session, _: f"its session has {session.active} active subflows, not {most} or fewer",
            )
        if rule.subflow_type is not None:
            initial = rule.subflow_type is SubflowType.INITIAL
            yield Condition(
                lambda _, subflow: subflow.initial == initial,
                lambda _, subflow: f"it is {_subflow_type(subflow)}, not {rule.subflow_type}",
            )
        if rule.backup is not None:
            yield Condition(
                lambda _, subflow: subflow.backup == rule.backup,
                lambda _, subflow: f"it is {'a' if subflow.backup else 'not a'} backup",
            )
        if rule.ports:
            yield Condition(
                lambda _, subflow: subflow.name.local_port in rule.ports,
                lambda _, subflow: f"this host's port is {subflow.name.local_port}, not {_either(rule.ports)}",
            )
        if rule.path is not None:
            yield Condition(
                lambda _, subflow: self.path(subflow) == rule.path,
                lambda _, subflow: f"it is on path {self.path(subflow) or '(none)'}, not {rule.path}",
            )
        if rule.clients:
            inside = lru_cache(_ADDRESSES_KEPT)(lambda remote: _inside(remote, rule.clients))
            yield Condition(
                lambda _, subflow: inside(subflow.name.remote),
                lambda _, subflow: f"the client {subflow.name.remote} is not in {_either(rule.clients)}",
            )


def owner(rule: Rule, session: Session, subflow: Subflow) -> Owner:
    """The owner of the class of ``subflow`` under ``rule``."""
    match rule.shared_by:
        case SharedBy.SUBFLOW:
            key = str(subflow.name)
        case SharedBy.SESSION:
            key = f"{session.token:08x}"
        case SharedBy.CLIENT:
            key = client_of(subflow.name.remote)
        case SharedBy.RULE:
            key = rule.name
    return Owner(rule.name, rule.shared_by, key)


def _inside(address: str, networks: Networks) -> bool:
    parsed = ip_address(address)
    return any(parsed in network for network in networks)


def _subflow_type(subflow: Subflow) -> SubflowType:
    return SubflowType.INITIAL if subflow.initial else SubflowType.JOIN


def _either(choices: Collection[object]) -> str:
    return " or ".join(map(str, choices))


def active_rules(rules: Iterable[Rule], now: datetime) -> frozenset[str]:
    """The names of the rules whose hours and days include ``now``, which is local time."""
    return frozenset(rule.name for rule in rules if _holds(rule, now))


def _holds(rule: Rule, now: datetime) -> bool:
    # Past midnight: what began yesterday goes on until its end.
    ago = rule.hours.days_ago(now) if rule.hours else 0
    return ago is not None and _on(rule, now.weekday() - ago)


def _on(rule: Rule, weekday: int) -> bool:
    return not rule.days or list(Day)[weekday % 7] in rule.days
