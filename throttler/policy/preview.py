"""Which subflows a rule would be about, before it is set. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from throttler.policy.decide import EvaluationContext, Matcher
from throttler.policy.model import Policy, Rule
from throttler.sessions import Session

NAMED = 20
"""Subflows that are named at most."""


@dataclass(frozen=True)
class Touched:
    """A subflow that the rule would decide about, and the rule that does now."""

    token: str
    subflow: str
    path: str | None
    instead_of: str | None


@dataclass(frozen=True)
class Preview:
    """How many the rule would decide about while it is active, and the first of them.

    ``released`` are subflows that the rule of that name decides about now and the new one would not; ``taken`` counts
    those that another rule decides about now, by its name.
    """

    acts: bool
    sessions: int
    subflows: int
    clients: int
    released: int
    taken: dict[str, int]
    first: tuple[Touched, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


def preview(now: Matcher, policy: Policy, rule: Rule, sessions: Iterable[Session], active: frozenset[str]) -> Preview:
    """What ``policy``, of which ``rule`` is one, would change of what the matcher of ``now`` decides.

    ``active`` are the rules that are active now; the rule itself counts as one of them.
    """
    then = Matcher(policy)
    before, after = EvaluationContext(active), EvaluationContext(active | {rule.name})
    touched, clients, taken = list[Touched](), set[str](), Counter[str]()
    sessions_touched, subflows, released = 0, 0, 0
    for session in sessions:
        found = 0
        for subflow in session.subflows:
            decided = now.rule(session, subflow, before)
            old = decided.name if decided else None
            decides = then.rule(session, subflow, after)
            if decides is None or decides.name != rule.name:
                released += old == rule.name
                continue
            found += 1
            clients.add(subflow.name.remote)
            taken.update({old: 1} if old and old != rule.name else {})
            if len(touched) < NAMED:
                touched.append(Touched(f"{session.token:08x}", str(subflow.name), then.path(subflow), old))
        sessions_touched += found > 0
        subflows += found
    return Preview(rule.acts, sessions_touched, subflows, len(clients), released, dict(taken), tuple(touched))
