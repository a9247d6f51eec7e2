"""From segments to plans, and what status tells: the throttler without its sockets, kernel and clock."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from throttler.policy.model import Policy, decide
from throttler.sessions import Session, Sessions, Subflow
from throttler.shaping.plan import Ledger, Placed, Plan
from throttler.shaping.render import class_id
from throttler.sources.handshakes import SECOND, Handshakes
from throttler.wire.segments import Segment

SHOWN = 1000
"""Sessions that status lists at most."""


class Engine:
    """Feed it segments, carry out the plans that it gives, and commit them."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._handshakes = Handshakes()
        self._sessions = Sessions()
        self._ledger = Ledger()
        self._counts: Counter[str] = Counter()

    def see(self, segments: Iterable[Segment]) -> Plan:
        """What to change after ``segments``, which are in the order of their time."""
        touched = set(self._ledger.waiting)
        for segment in segments:
            for event in self._handshakes.see(segment):
                self._sessions.apply(event)
                touched.add(event.token)
        return self._plan(touched)

    def start_afresh(self) -> Plan:
        """Nothing is installed any more; what to install."""
        self._ledger = Ledger()
        self._counts["fresh starts"] += 1
        return self._plan(session.token for session in self._sessions)

    def _plan(self, tokens: Iterable[int]) -> Plan:
        tokens = frozenset(tokens)
        sessions = [session for token in tokens if (session := self._sessions.get(token)) is not None]
        return self._ledger.plan(tokens, decide(sessions, self._policy))

    def commit(self, plan: Plan) -> None:
        """Take note that ``plan`` was carried out."""
        self._ledger.commit(plan)
        self._counts["holds"] += len(plan.add)
        self._counts["releases"] += len(plan.remove)
        self._counts["holds refused: no class is free"] += len(plan.refused)

    def status(self, now: int) -> dict[str, Any]:
        """Sessions, holds and counters as JSON types; ``now`` in nanoseconds since 1970. There are no keys in it."""
        return {
            "sessions_total": len(self._sessions),
            "holds_total": sum(1 for _ in self._ledger),
            "sessions": [self._session(session, now) for session in islice(self._sessions, SHOWN)],
            "counters": self._counters(),
        }

    def _counters(self) -> dict[str, int]:
        every = self._handshakes.counts + self._sessions.unexpected + self._counts
        return {str(name): count for name, count in sorted(every.items())}

    def _session(self, session: Session, now: int) -> dict[str, Any]:
        held = {placed.hold.subflow: placed for placed in self._ledger.of(session.token)}
        return {
            "token": f"{session.token:08x}",
            "age_s": _seconds(now - session.since),
            "active_subflows": session.active,
            "subflows": [self._subflow(subflow, held.get(subflow.name), now) for subflow in session.subflows],
        }

    def _subflow(self, subflow: Subflow, placed: Placed | None, now: int) -> dict[str, Any]:
        name = subflow.name
        return {
            "local": name.local,
            "local_port": name.local_port,
            "remote": name.remote,
            "remote_port": name.remote_port,
            "interface": subflow.interface,
            "path": self._policy.path_on(subflow.interface),
            "address_id": subflow.address_id,
            "initial": subflow.initial,
            "backup": subflow.backup,
            "age_s": _seconds(now - subflow.since),
            "hold": _hold(placed) if placed else None,
        }


def _hold(placed: Placed) -> dict[str, Any]:
    return {"rule": placed.hold.rule, "rate": str(placed.hold.rate), "class": class_id(placed.minor)}


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)


def log_lines(plan: Plan) -> list[str]:
    """What a reader of the log wants to know of ``plan``."""
    released = [f"release {_line(placed)}" for placed in plan.remove]
    held = [f"hold {_line(placed)}" for placed in plan.add]
    refused = [f"no class is free for {hold.subflow} (rule {hold.rule})" for hold in plan.refused]
    return released + held + refused


def _line(placed: Placed) -> str:
    hold = placed.hold
    return (
        f"{hold.subflow} on {hold.interface} at {hold.rate}"
        f" (session {hold.token:08x}, rule {hold.rule}, class {class_id(placed.minor)})"
    )
