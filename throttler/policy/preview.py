"""Which subflows a rule would be about, before it is set. Pure."""

from collections import Counter
from collections.abc import Iterable

from throttler.policy.decide import EvaluationContext, Matcher
from throttler.policy.model import Policy, Rule
from throttler.sessions import Session, Subflow
from tributary.api.console import Preview, TouchedSubflow

NAMED = 20
"""Subflows that are named at most."""


def preview(now: Matcher, policy: Policy, rule: Rule, sessions: Iterable[Session], active: frozenset[str]) -> Preview:
    """What ``policy``, of which ``rule`` is one, would change of what the matcher of ``now`` decides.

    ``active`` are the rules that are active now; the rule itself counts as one of them.
    """
    then = Matcher(policy)
    before, after = EvaluationContext(active), EvaluationContext(active | {rule.name})
    touched: list[tuple[Session, Subflow, str | None]] = []
    released = 0
    for session in sessions:
        for subflow in session.subflows:
            old, new = now.rule(session, subflow, before), then.rule(session, subflow, after)
            if new is not None and new.name == rule.name:
                touched.append((session, subflow, old.name if old else None))
            else:
                released += old is not None and old.name == rule.name
    return Preview(
        acts=rule.acts,
        sessions=len({session.token for session, _, _ in touched}),
        subflows=len(touched),
        clients=len({subflow.name.remote for _, subflow, _ in touched}),
        released=released,
        taken=dict(Counter(old for _, _, old in touched if old and old != rule.name)),
        first=tuple(
            TouchedSubflow(
                token=f"{session.token:08x}",
                subflow=str(subflow.name.shown(policy.privacy)),
                path=then.path(subflow),
                instead_of=old,
            )
            for session, subflow, old in touched[:NAMED]
        ),
    )
