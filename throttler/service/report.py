"""The reports for ``tributary``: the status, and explanations. They have no keys."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from throttler.policy.decide import Owner
from throttler.policy.model import Rule
from throttler.policy.quotas import SECOND
from throttler.policy.values import Direction, SharedBy
from throttler.service.engine import Engine
from throttler.service.query import SessionQuery, client
from throttler.service.query import found as sessions_found
from throttler.service.snapshot import Decision, ExplainQuery, Snapshot
from throttler.service.status import (
    NOT_STEERED,
    CaptureStatus,
    Carried,
    FoundSessions,
    PathStatus,
    QuotaStatus,
    RuleStatus,
    Status,
    SteeringStatus,
)
from throttler.sessions import Session, Subflow
from throttler.shaping.plan import ActiveClass
from throttler.shaping.render import MARK, class_id
from throttler.shaping.topology import device
from throttler.sources.source import SourceKind
from tributary.api import documents
from tributary.api.console import ExplainedSubflow
from tributary.api.documents import known_sum
from tributary.kernel.htb import ClassStatistics, of_device
from tributary.mptcp import sockets
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic
from tributary.settings.errors import invalid_value
from tributary.settings.hosts import host_and_port, joined
from tributary.settings.privacy import Privacy, shortened
from tributary.settings.units import Rate

SHOWN = 1000
"""Sessions and classes that status lists at most."""
MEASURED = 10_000
"""TCP sockets that are read at most: each takes 16 microseconds of a processor."""
EXPLAINED = 64
"""Subflows of one session that are explained at most."""

_ECHOED = 200
"""Characters of a wrong argument that a message quotes."""
_TOKEN = re.compile(r"[0-9a-f]{8}", re.ASCII)

Json = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """Counters of the moment: of classes by device and minor number, of subflows where they end on this host."""

    classes: Mapping[tuple[str, int], ClassStatistics]
    subflows: Mapping[FourTuple, Traffic]


def measure(devices: Collection[str]) -> Measured:
    """Read the counters of all classes on ``devices``, and of the subflows that end here, if there are not too many.

    The kernel goes through all TCP sockets to find them, also those without MPTCP.
    """
    classes = {(name, minor): found for name in devices for minor, found in of_device(name, MARK).items()}
    return Measured(classes, sockets.traffic() if sockets.count() <= MEASURED else {})


@dataclass(frozen=True)
class Report:
    """A report at ``now``, in nanoseconds of the sessions' clock: of the engine's snapshot, the rules set at run time,
    the source with its counters, and the uptime in seconds.
    """

    snapshot: Snapshot
    runtime: frozenset[str]
    source: SourceKind
    counts: Counter[str]
    capture: Mapping[str, Mapping[str, int]]
    file: Path
    uptime: float
    measured: Measured
    now: int
    steering: SteeringStatus = NOT_STEERED

    @property
    def status(self) -> Status:
        """Rules, paths, counters, and the first classes and sessions."""
        return self._status(SHOWN, SHOWN)

    @property
    def totals(self) -> Status:
        """The same with all classes, and without sessions."""
        return self._status(None, 0)

    @property
    def carried(self) -> Iterator[Carried] | None:
        """What each subflow that is known has carried; None where sockets were not read."""
        is_read = self.measured.subflows or not self.snapshot.sessions
        return self._each_carried() if is_read else None

    def _each_carried(self) -> Iterator[Carried]:
        # No documents, of which those of 10,000 sessions take four times as long as all else of a page.
        traffic, decisions = self.measured.subflows, self.snapshot.decisions
        for session in self.snapshot.sessions:
            paths = {each.subflow: each.path for each in decisions.get(session.token, ())}
            for subflow in session.subflows:
                name = subflow.name
                found = traffic.get(name)
                sent, received = (found.acked, found.received) if found else (None, None)
                yield Carried((session.token, name), paths.get(name), sent, received)

    def found(self, query: SessionQuery) -> FoundSessions:
        """The sessions that a query asks for."""
        fits = sessions_found(query, self.snapshot, self.measured.subflows)
        part = fits[query.offset : query.offset + query.limit]
        return FoundSessions(uptime_s=round(self.uptime, 3), total=len(fits), sessions=tuple(map(self._session, part)))

    @cached_property
    def _dry(self) -> Collection[str]:
        return {rule.name for rule in self.snapshot.policy.rules if rule.dry_run}

    def _status(self, classes: int | None, sessions: int | None) -> Status:
        snapshot = self.snapshot
        classes_by_rule = Counter(key.owner.rule for key in snapshot.classes)
        used = defaultdict[str, list[int]](list)
        for owner, _, amount in snapshot.used:
            used[owner.rule].append(amount)
        return Status(
            # Who asks may be in another folder.
            policy=str(self.file.absolute()),
            source=str(self.source),
            uptime_s=round(self.uptime, 3),
            sessions_total=len(snapshot.sessions),
            subflows_total=snapshot.subflows_total,
            throttled_total=snapshot.throttled_total,
            classes_total=len(snapshot.classes),
            rules=tuple(
                _rule(snapshot, rule, rule.name in self.runtime, classes_by_rule[rule.name], used[rule.name])
                for rule in snapshot.policy.rules
            ),
            paths=tuple(map(self._path, snapshot.policy.paths)),
            classes=tuple(map(self._class, islice(snapshot.classes.values(), classes))),
            sessions=tuple(map(self._session, snapshot.sessions[:sessions])),
            counters=_counters(snapshot, self.counts),
            capture={interface: CaptureStatus(**counts) for interface, counts in self.capture.items()},
            steering=self.steering,
            privacy=self._privacy,
        )

    @property
    def _privacy(self) -> Privacy:
        return self.snapshot.policy.privacy

    def _path(self, name: str) -> PathStatus:
        snapshot = self.snapshot
        interface = snapshot.policy.paths[name].interface
        return PathStatus(
            name=name,
            interface=interface,
            present=interface not in snapshot.absent,
            subflows=snapshot.subflows_by_path[name],
            throttled=snapshot.throttled_by_path[name],
        )

    def _class(self, shown: ActiveClass) -> documents.HtbClass:
        htb = shown.htb
        where = device(htb.key.interface, htb.key.direction)
        found = self.measured.classes.get((where, htb.minor))
        return documents.HtbClass(
            device=where,
            id=class_id(htb.minor),
            direction=str(htb.key.direction),
            rule=htb.key.owner.rule,
            owner=_owner(htb.key.owner, self._privacy),
            rate=str(Rate(htb.rates.rate)),
            ceiling=str(Rate(htb.rates.ceiling)),
            subflows=shown.members,
            sent=found.bytes if found else None,
            packets=found.packets if found else None,
            dropped=found.drops if found else None,
            backlog=found.backlog if found else None,
        )

    def _session(self, session: Session) -> documents.Session:
        snapshot = self.snapshot
        decisions = {decision.subflow: decision for decision in snapshot.decisions.get(session.token, ())}
        class_keys = snapshot.class_keys.get(session.token, {})
        classes = {
            (name, way): class_id(snapshot.classes[key].htb.minor)
            for (way, name), key in class_keys.items()
            if key in snapshot.classes
        }
        subflows = tuple(self._subflow(each, decisions.get(each.name), classes) for each in session.subflows)
        return documents.Session(
            token=f"{session.token:08x}",
            client=shortened(client(session), self._privacy),
            age=round((self.now - session.since) / SECOND, 3),
            active=session.active,
            throttled=sum(subflow.throttled for subflow in subflows),
            sent=known_sum(subflow.sent for subflow in subflows),
            received=known_sum(subflow.received for subflow in subflows),
            subflows=subflows,
        )

    def _subflow(
        self, subflow: Subflow, decision: Decision | None, classes: Mapping[tuple[FourTuple, Direction], str]
    ) -> documents.Subflow:
        name, traffic = subflow.name, self.measured.subflows.get(subflow.name)
        rule = decision.rule if decision else None
        return documents.Subflow(
            local=name.local_end,
            remote=joined(shortened(name.remote, self._privacy), name.remote_port),
            path=decision.path if decision else None,
            initial=subflow.initial,
            backup=subflow.backup,
            rule=None if rule in self._dry else rule,
            counted_by=rule if rule in self._dry else None,
            throttled=decision is not None and decision.throttled,
            sent=traffic.acked if traffic else None,
            received=traffic.received if traffic else None,
            rtt=traffic.rtt_us / 10**6 if traffic else None,
            download=classes.get((name, Direction.DOWNLOAD)),
            upload=classes.get((name, Direction.UPLOAD)),
        )


def _counters(snapshot: Snapshot, counts: Counter[str]) -> dict[str, int]:
    found = snapshot.counts.copy()
    found.update(counts)  # the sum of two counters would be without zeros
    found["throttled in a shared class: no class of their own was free"] = snapshot.shared
    found["not throttled: no class was free"] = snapshot.refused
    found["not throttled: the nft map was full"] = snapshot.unmapped
    return {str(name): count for name, count in sorted(found.items())}


def _rule(snapshot: Snapshot, rule: Rule, runtime: bool, classes: int, used: Sequence[int]) -> RuleStatus:
    return RuleStatus(
        name=rule.name,
        runtime=runtime,
        dry_run=rule.dry_run,
        active=rule.name in snapshot.context.rules,
        shared_by=str(rule.shared_by),
        rate=str(rule.rate) if rule.rate else None,
        subflows=snapshot.subflows_by_rule[rule.name],
        classes=classes,
        matches=snapshot.matches_by_rule[rule.name],
        quota=_quota(snapshot, rule, used),
    )


def _quota(snapshot: Snapshot, rule: Rule, used: Sequence[int]) -> QuotaStatus | None:
    if rule.quota is None:
        return None
    return QuotaStatus(
        bytes=rule.quota.size.amount,
        period=str(rule.quota.period),
        used=sum(used),
        max_used=max(used, default=0),
        exhausted=sum(owner.rule == rule.name for owner in snapshot.exhausted),
    )


def _owner(owner: Owner, privacy: Privacy) -> str:
    if privacy == "full" or owner.shared_by not in (SharedBy.CLIENT, SharedBy.SUBFLOW):
        return owner.key
    if owner.shared_by is SharedBy.CLIENT:  # an address, or IPv6's /64
        return shortened(owner.key.partition("/")[0], privacy)
    local, _, remote = owner.key.partition(" > ")
    host, port = host_and_port(remote)
    return f"{local} > {joined(shortened(host, privacy), port)}"


def question(engine: Engine, ends: object, privacy: Privacy = "full") -> ExplainQuery:
    """The query for ``explain``: the session of a token, or the subflow of two ends, in either order.

    Raises CommandError, exit 64, for other arguments, and without such a session or subflow; with ``privacy`` for ends,
    which would say whether a client is there.
    """
    found = None
    if isinstance(ends, list) and all(isinstance(end, str) for end in ends) and (privacy == "full" or len(ends) == 1):
        found = _asked(engine, ends)
    if found is None:
        given = " ".join(map(str, ends[:3])) if isinstance(ends, list) else str(ends)
        accepted = "the token of a session" if privacy != "full" else "the token of a session or both ends of a subflow"
        raise invalid_value("explain", "argument", given[:_ECHOED], f"{accepted} that 'tributary sessions' shows")
    return found


def _asked(engine: Engine, ends: list[str]) -> ExplainQuery | None:
    if len(ends) == 1:
        session = engine.sessions.get(int(ends[0], 16)) if _TOKEN.fullmatch(ends[0]) else None
        return engine.query(session) if session else None
    try:
        one, other = map(host_and_port, ends)
    except ValueError:  # also for another number of ends
        return None
    for name in (FourTuple(*one, *other), FourTuple(*other, *one)):
        if session := engine.sessions.with_subflow(name):
            return engine.query(session, name)
    return None


def explain(asked: ExplainQuery, privacy: Privacy, steering: str | None = None) -> Json:
    """Which rule applies to each of the query's first subflows, and why the others do not; and what was decided about
    the session's paths.
    """
    explained = (_explained(asked, subflow, privacy, steering) for subflow in asked.subflows[:EXPLAINED])
    return {"subflows": [each.model_dump(mode="json") for each in explained]}


def _explained(asked: ExplainQuery, subflow: Subflow, privacy: Privacy, steering: str | None) -> ExplainedSubflow:
    full, shown = f" {subflow.name.remote} ", f" {shortened(subflow.name.remote, privacy)} "
    results = asked.matcher.explain(asked.session, subflow, asked.context)
    return ExplainedSubflow(
        token=f"{asked.session.token:08x}",
        subflow=str(subflow.name.shown(privacy)),
        path=asked.matcher.path(subflow),
        rules=tuple(
            each.model_copy(update={"reason": each.reason and each.reason.replace(full, shown)}) for each in results
        ),
        steering=steering,
    )
