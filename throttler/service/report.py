"""What the daemon tells of itself, for ``throttler status`` and ``throttler explain``. No keys are in it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from throttler.policy.model import Rule
from throttler.policy.quotas import SECOND
from throttler.policy.values import Direction
from throttler.service.engine import Engine, Verdict
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
    """Who tells: the daemon's engine and source, its policy's file, and for how many seconds it has been up."""

    engine: Engine
    source: Source
    file: Path
    uptime: float


def status(subject: Subject, measured: Measured, now: int) -> Status:
    """Rules, paths, classes, sessions and counters; ``now`` is in nanoseconds since 1970."""
    engine, source = subject.engine, subject.source
    classes = Counter(placed.place.owner.rule for placed, _ in engine.ledger.classes())
    return Status(
        policy=str(subject.file),
        source=str(source.which),
        uptime_s=round(subject.uptime, 3),
        sessions_total=len(engine.sessions),
        subflows_total=engine.sessions.subflows,
        holds_total=engine.ledger.elements,
        classes_total=len(engine.ledger),
        rules=tuple(_rule(engine, rule, classes[rule.name]) for rule in engine.policy.rules),
        paths=tuple(_path(engine, name) for name in engine.policy.paths),
        classes=tuple(_class(placed, held, measured) for placed, held in islice(engine.ledger.classes(), SHOWN)),
        sessions=tuple(_session(engine, session, measured, now) for session in islice(engine.sessions, SHOWN)),
        counters=_counters(engine, source.counts()),
        capture={interface: CaptureStatus(**counts) for interface, counts in source.capture().items()},
    )


def _counters(engine: Engine, counts: Counter[str]) -> dict[str, int]:
    found = engine.counts + engine.sessions.unexpected + counts
    found["holds in a shared class: none of their own was free"] = engine.ledger.shared
    found["holds refused: no class was free"] = engine.ledger.refused
    return {str(name): count for name, count in sorted(found.items())}


def _rule(engine: Engine, rule: Rule, classes: int) -> RuleStatus:
    return RuleStatus(
        name=rule.name,
        set_live=rule.name in engine.set_live,
        dry=rule.dry,
        in_force=rule.name in engine.moment.rules,
        scope=str(rule.scope),
        rate=str(rule.rate) if rule.rate else None,
        subflows=engine.subflows_by_rule[rule.name],
        classes=classes,
        matches=engine.matches_by_rule[rule.name],
        quota=_quota(engine, rule),
    )


def _quota(engine: Engine, rule: Rule) -> QuotaStatus | None:
    if rule.quota is None:
        return None
    used = engine.quotas.of_rule(rule.name)
    return QuotaStatus(
        bytes=rule.quota.size.amount,
        period=str(rule.quota.period),
        used=sum(used),
        worst_used=max(used, default=0),
        spent=sum(owner.rule == rule.name for owner in engine.moment.spent),
    )


def _path(engine: Engine, name: str) -> PathStatus:
    interface = engine.policy.paths[name].interface
    return PathStatus(name, interface, engine.subflows_by_path[name], engine.held_by_path[name])


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


def _session(engine: Engine, session: Session, measured: Measured, now: int) -> SessionStatus:
    verdicts = {verdict.subflow: verdict for verdict in engine.verdicts(session.token)}
    classes = {
        (subflow, placed.place.direction): class_id(placed.minor) for subflow, placed in engine.ledger.of(session.token)
    }
    return SessionStatus(
        token=f"{session.token:08x}",
        age_s=_seconds(now - session.since),
        active_subflows=session.active,
        announced=tuple(AnnouncedAddress(number, address) for number, address in session.announced),
        subflows=tuple(
            _subflow(engine, subflow, verdicts.get(subflow.name), classes, measured.subflows.get(subflow.name), now)
            for subflow in session.subflows
        ),
    )


def _subflow(
    engine: Engine,
    subflow: Subflow,
    verdict: Verdict | None,
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
        dry=_is_dry(engine, verdict),
        download=classes.get((name, Direction.DOWNLOAD)),
        upload=classes.get((name, Direction.UPLOAD)),
    )


def _is_dry(engine: Engine, verdict: Verdict | None) -> bool:
    return any(rule.dry for rule in engine.policy.rules if verdict and rule.name == verdict.rule)


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
            "token": f"{session.token:08x}",
            "subflow": str(name),
            "path": next((one.path for one in engine.verdicts(session.token) if one.subflow == name), None),
            "rules": [{"rule": one.rule, "applies": one.against is None, "why": one.against} for one in why],
        }
        for session in engine.sessions
        if (names := _named(session, ends))
        for name, why in engine.explain(session)
        if name in names
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
