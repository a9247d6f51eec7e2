"""Which subflows a rule would be about, before it is set. Pure."""

from collections import Counter
from collections.abc import Iterable

from throttler.policy.decide import EvaluationContext, Matcher
from throttler.policy.model import Policy, Rule
from throttler.sessions import Session
from tributary.api.console import Preview, TouchedSubflow

NAMED = 20
"""Subflows that are named at most."""


def preview(now: Matcher, policy: Policy, rule: Rule, sessions: Iterable[Session], active: frozenset[str]) -> Preview:
    """What ``policy``, of which ``rule`` is one, would change of what the matcher of ``now`` decides.

    ``active`` are the rules that are active now; the rule itself counts as one of them.
    """
    then = Matcher(policy)
    before, after = EvaluationContext(active), EvaluationContext(active | {rule.name})
    touched, clients, taken = list[TouchedSubflow](), set[str](), Counter[str]()
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
                touched.append(
                    TouchedSubflow(
                        token=f"{session.token:08x}",
                        subflow=str(subflow.name),
                        path=then.path(subflow),
                        instead_of=old,
                    )
                )
        sessions_touched += found > 0
        subflows += found
    return Preview(
        acts=rule.acts,
        sessions=sessions_touched,
        subflows=subflows,
        clients=len(clients),
        released=released,
        taken=dict(taken),
        first=tuple(touched),
    )
