"""What the daemon tells of itself, for ``throttler status`` and ``throttler explain``. No keys are in it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from throttler.policy.model import Rule
from throttler.policy.quotas import SECOND
from throttler.policy.values import Direction
from throttler.service.engine import Engine
from throttler.service.snapshot import SessionSnapshot, Snapshot, Verdict
from throttler.service.status import (
    AnnouncedAddress,
    CaptureStatus,
    ClassCounters,
    ClassStatus,
    PathStatus,
    QuotaStatus,
    RuleStatus,
    SessionStatus,
    Status,
    SubflowStatus,
)
from throttler.sessions import Session, Subflow
from throttler.shaping import statistics
from throttler.shaping.layout import device
from throttler.shaping.plan import Placed
from throttler.shaping.render import class_id
from throttler.shaping.statistics import ClassStatistics
from throttler.sources.source import Source
from tributary.mptcp import sockets
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic
from tributary.settings.failure import refused
from tributary.settings.units import Rate

SHOWN = 1000
"""Sessions, and classes, that status lists at most."""
MEASURED = 10_000
"""Subflows whose sockets are read at most: each takes 16 microseconds, in which nothing else is done."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """Counters of the moment: of classes by device and minor number, of subflows where they end on this host."""

    classes: Mapping[tuple[str, int], ClassStatistics]
    subflows: Mapping[FourTuple, Traffic]


def measure(devices: Collection[str], subflows: int) -> Measured:
    """Read the counters of all classes on ``devices``, and of the subflows that end here, if they are not too many."""
    classes = {(name, minor): found for name in devices for minor, found in statistics.of_device(name).items()}
    return Measured(classes, sockets.traffic() if subflows <= MEASURED else {})


@dataclass(frozen=True)
class Subject:
    """What is told of: the engine's snapshot, the rules that are not the file's, the source, the seconds of uptime."""

    snapshot: Snapshot
    set_live: frozenset[str]
    source: Source
    file: Path
    uptime: float


def status(subject: Subject, measured: Measured, now: int) -> Status:
    """Rules, paths, classes, sessions and counters; ``now`` is in nanoseconds since 1970."""
    snapshot, source = subject.snapshot, subject.source
    dry = {rule.name for rule in snapshot.policy.rules if rule.dry}
    return Status(
        policy=str(subject.file),
        source=str(source.which),
        uptime_s=round(subject.uptime, 3),
        sessions_total=snapshot.sessions_total,
        subflows_total=snapshot.subflows_total,
        holds_total=snapshot.holds_total,
        classes_total=snapshot.classes_total,
        rules=tuple(_rule(snapshot, rule, rule.name in subject.set_live) for rule in snapshot.policy.rules),
        paths=tuple(_path(snapshot, name) for name in snapshot.policy.paths),
        classes=tuple(_class(placed, held, measured) for placed, held in snapshot.classes),
        sessions=tuple(_session(session, dry, measured, now) for session in snapshot.sessions),
        counters=_counters(snapshot, source.counts()),
        capture={interface: CaptureStatus(**counts) for interface, counts in source.capture().items()},
    )


def _counters(snapshot: Snapshot, counts: Counter[str]) -> dict[str, int]:
    found = snapshot.counts + counts
    found["holds in a shared class: none of their own was free"] = snapshot.shared
    found["holds refused: no class was free"] = snapshot.refused
    return {str(name): count for name, count in sorted(found.items())}


def _rule(snapshot: Snapshot, rule: Rule, set_live: bool) -> RuleStatus:
    return RuleStatus(
        name=rule.name,
        set_live=set_live,
        dry=rule.dry,
        in_force=rule.name in snapshot.moment.rules,
        scope=str(rule.scope),
        rate=str(rule.rate) if rule.rate else None,
        subflows=snapshot.subflows_by_rule[rule.name],
        classes=snapshot.classes_by_rule[rule.name],
        matches=snapshot.matches_by_rule[rule.name],
        quota=_quota(snapshot, rule),
    )


def _quota(snapshot: Snapshot, rule: Rule) -> QuotaStatus | None:
    if rule.quota is None:
        return None
    used = snapshot.used_by_rule[rule.name]
    return QuotaStatus(
        bytes=rule.quota.size.amount,
        period=str(rule.quota.period),
        used=sum(used),
        worst_used=max(used, default=0),
        spent=sum(owner.rule == rule.name for owner in snapshot.moment.spent),
    )


def _path(snapshot: Snapshot, name: str) -> PathStatus:
    interface = snapshot.policy.paths[name].interface
    return PathStatus(name, interface, snapshot.subflows_by_path[name], snapshot.held_by_path[name])


def _class(placed: Placed, subflows: int, measured: Measured) -> ClassStatus:
    where = device(placed.place.interface, placed.place.direction)
    found = measured.classes.get((where, placed.minor))
    return ClassStatus(
        device=where,
        id=class_id(placed.minor),
        direction=str(placed.place.direction),
        rule=placed.place.owner.rule,
        owner=placed.place.owner.key,
        rate=_rate(placed.shape.rate),
        ceiling=_rate(placed.shape.ceiling),
        subflows=subflows,
        counters=ClassCounters(found.bytes, found.packets, found.drops, found.backlog) if found else None,
    )


def _session(shown: SessionSnapshot, dry: Collection[str], measured: Measured, now: int) -> SessionStatus:
    session = shown.session
    verdicts = {verdict.subflow: verdict for verdict in shown.verdicts}
    classes = {(subflow, placed.place.direction): class_id(placed.minor) for subflow, placed in shown.classes}
    return SessionStatus(
        token=f"{session.token:08x}",
        age_s=_seconds(now - session.since),
        active_subflows=session.active,
        announced=tuple(AnnouncedAddress(number, address) for number, address in session.announced),
        subflows=tuple(
            _subflow(subflow, verdicts.get(subflow.name), dry, classes, measured.subflows.get(subflow.name), now)
            for subflow in session.subflows
        ),
    )


def _subflow(
    subflow: Subflow,
    verdict: Verdict | None,
    dry: Collection[str],
    classes: Mapping[tuple[FourTuple, Direction], str],
    traffic: Traffic | None,
    now: int,
) -> SubflowStatus:
    name = subflow.name
    return SubflowStatus(
        local=name.local,
        local_port=name.local_port,
        remote=name.remote,
        remote_port=name.remote_port,
        interface=subflow.interface,
        path=verdict.path if verdict else None,
        address_id=subflow.address_id,
        initial=subflow.initial,
        backup=subflow.backup,
        age_s=_seconds(now - subflow.since),
        rule=verdict.rule if verdict else None,
        sent_bytes=traffic.acked if traffic else None,
        received_bytes=traffic.received if traffic else None,
        rtt_us=traffic.rtt_us if traffic else None,
        dry=verdict is not None and verdict.rule in dry,
        download=classes.get((name, Direction.DOWNLOAD)),
        upload=classes.get((name, Direction.UPLOAD)),
    )


def _rate(bits: int) -> str:
    return str(Rate(bits))


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)


def explain(engine: Engine, ends: Sequence[str]) -> Json:
    """Which rule applies to the subflows that ``ends`` name (a token, or both ends of one), and why not the others.

    Raises Failure, exit 64, if there is no such session or subflow.
    """
    found = [
        {
            "token": f"{one.token:08x}",
            "subflow": str(one.subflow),
            "path": one.path,
            "rules": [{"rule": why.rule, "applies": why.against is None, "why": why.against} for why in one.rules],
        }
        for one in engine.explain(lambda session: _named(session, ends))
    ]
    if not found:
        accepted = "the token of a session or both ends of a subflow that 'throttler status' shows"
        raise refused("explain", "argument", " ".join(ends), accepted)
    return {"subflows": found}


def _named(session: Session, ends: Sequence[str]) -> set[FourTuple]:
    names = {subflow.name for subflow in session.subflows}
    if len(ends) == 1:
        return names if ends[0] == f"{session.token:08x}" else set()
    return {name for name in names if {name.local_end, name.remote_end} == set(ends)}
