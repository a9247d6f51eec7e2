"""What the engine tells of itself at a moment, for reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from throttler.policy.decide import Moment, Reason
from throttler.policy.model import Policy
from throttler.sessions import Session
from throttler.shaping.plan import Placed
from tributary.mptcp.four_tuple import FourTuple


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about a subflow: its path, and the rule that applies, if any do."""

    subflow: FourTuple
    path: str | None
    rule: str | None
    held: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """What each rule says of a subflow, up to the one that decides."""

    token: int
    subflow: FourTuple
    path: str | None
    rules: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session, what was decided about its subflows, and the class of each direction that is held."""

    session: Session
    verdicts: Sequence[Verdict]
    classes: Sequence[tuple[FourTuple, Placed]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The totals count everything; ``classes``, each with its elements, and ``sessions`` may be the first ones only.

    ``used_by_rule`` has the bytes that each owner has used of a rule's quota; ``counts`` are by what was counted.
    Holds that found no class of their own are ``shared``, those that found none at all ``refused``.
    """

    policy: Policy
    devices: frozenset[str]
    moment: Moment
    sessions_total: int
    subflows_total: int
    holds_total: int
    classes_total: int
    classes: Sequence[tuple[Placed, int]]
    sessions: Sequence[SessionSnapshot]
    classes_by_rule: Counter[str]
    subflows_by_rule: Counter[str]
    matches_by_rule: Counter[str]
    subflows_by_path: Counter[str]
    held_by_path: Counter[str]
    used_by_rule: Mapping[str, Sequence[int]]
    counts: Counter[str]
    shared: int
    refused: int
