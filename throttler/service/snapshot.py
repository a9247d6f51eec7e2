"""What the engine tells of itself at a moment, for reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from throttler.policy.decide import Matcher, Moment, Owner
from throttler.policy.model import Policy
from throttler.policy.quotas import Use
from throttler.sessions import Session, Subflow
from throttler.shaping.plan import Class, Held, Place
from tributary.mptcp.four_tuple import FourTuple


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about a subflow: its path, and the rule that applies, if any do."""

    subflow: FourTuple
    path: str | None
    rule: str | None
    throttled: bool


@dataclass(frozen=True, slots=True)
class Question:
    """All that it takes to say what each rule says of ``subflows`` of a ``session``."""

    matcher: Matcher
    moment: Moment
    session: Session
    subflows: Sequence[Subflow]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the engine knew at a moment. It is made in the loop, and so copies references alone.

    ``verdicts`` and ``held`` are by the sessions' tokens. ``used`` has what each owner has used of its quota;
    ``counts`` are by what was counted. Holds that found no class of their own are ``shared``, those that found none at
    all ``refused``, those whose nft map was full ``unmapped``; ``absent`` are the interfaces that are not there.
    """

    policy: Policy
    devices: frozenset[str]
    absent: frozenset[str]
    moment: Moment
    exhausted: frozenset[Owner]
    sessions: Sequence[Session]
    subflows_total: int
    throttled_total: int
    classes: Mapping[Place, Class]
    verdicts: Mapping[int, Sequence[Verdict]]
    held: Mapping[int, Held]
    subflows_by_rule: Counter[str]
    matches_by_rule: Counter[str]
    subflows_by_path: Counter[str]
    throttled_by_path: Counter[str]
    used: Sequence[Use]
    counts: Counter[str]
    shared: int
    refused: int
    unmapped: int
