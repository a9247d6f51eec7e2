"""The engine's state at a moment, for reports."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from throttler.policy.decide import EvaluationContext, Matcher, Owner
from throttler.policy.model import Policy
from throttler.policy.quotas import Use
from throttler.sessions import Session, Subflow
from throttler.shaping.plan import ActiveClass, ClassKey, ClassKeys
from tributary.mptcp.four_tuple import FourTuple


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a subflow: its path, and the rule that applies, if any do."""

    subflow: FourTuple
    path: str | None
    rule: str | None
    throttled: bool


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """What ``explain`` evaluates: the rules for ``subflows`` of a ``session``."""

    matcher: Matcher
    context: EvaluationContext
    session: Session
    subflows: Sequence[Subflow]


@dataclass(frozen=True)
class Snapshot:
    """What the engine knew at a moment. It is made in the loop, and so copies references alone and counts nothing.

    ``decisions`` and ``class_keys`` are by the sessions' tokens. ``used`` has what each owner has used of its quota;
    ``counts`` are by what was counted. Holds that found no class of their own are ``shared``, those that found none at
    all ``refused``, those whose nft map was full ``unmapped``; ``absent`` are the interfaces that are not there.
    """

    policy: Policy
    devices: frozenset[str]
    absent: frozenset[str]
    context: EvaluationContext
    exhausted: frozenset[Owner]
    sessions: Sequence[Session]
    subflows_total: int
    throttled_total: int
    classes: Mapping[ClassKey, ActiveClass]
    decisions: Mapping[int, Sequence[Decision]]
    class_keys: Mapping[int, ClassKeys]
    matches_by_rule: Counter[str]
    used: Sequence[Use]
    counts: Counter[str]
    shared: int
    refused: int
    unmapped: int

    @cached_property
    def subflows_by_rule(self) -> Counter[str | None]:
        return Counter(each.rule for each in self._each_decision())

    @cached_property
    def subflows_by_path(self) -> Counter[str | None]:
        return Counter(each.path for each in self._each_decision())

    @cached_property
    def throttled_by_path(self) -> Counter[str | None]:
        return Counter(each.path for each in self._each_decision() if each.throttled)

    def _each_decision(self) -> Iterator[Decision]:
        return chain.from_iterable(self.decisions.values())
