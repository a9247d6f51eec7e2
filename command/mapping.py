"""From the daemons' answers to the documents of the API. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from throttler.service.status import ClassStatus, PathStatus, RuleStatus, SessionStatus, Status, SubflowStatus
from tributary.api.documents import HtbClass, Link, Rule, Service, Session, Subflow
from tributary.daemons.text import end, plural
from tributary.settings.units import Size

LIMIT = "limit-"
"""What the names of rules begin with that ``tributary limit`` sets."""

Answer = Mapping[str, Any]
N = TypeVar("N", int, float)


def wan_links(answer: Answer) -> list[Link]:
    """The links of a router's status, by rank."""
    return [_wan(link) for link in answer["wan"]]


def _wan(link: Answer) -> Link:
    probe, cap, shaper = link["probe"] or {}, link["cap"] or {}, link.get("shaper") or {}
    rtt = probe.get("rtt_ms")
    return Link(
        name=link["name"],
        kind="wan",
        state="standby" if link["standby"] and link["state"] == "up" else link["state"],
        reason=link["reason"],
        age=link["state_age_s"],
        interface=link["interface"],
        sent=None,
        received=None,
        use=link["use"],
        rtt=None if rtt is None else rtt / 1000,
        download=shaper.get("download"),
        upload=shaper.get("upload"),
        used=cap.get("used_bytes"),
        cap=cap.get("bytes"),
        subflows=None,
        throttled=None,
        limit=None,
        advice=tuple(finding["text"] for finding in link["diagnosis"]),
    )


def paths(status: Status) -> list[Link]:
    """The paths of a throttler's policy, in its order."""
    limits = {rule.name.removeprefix(LIMIT): rule.rate for rule in status.rules if rule.name.startswith(LIMIT)}
    return [_path(path, limits.get(path.name)) for path in status.paths]


def _path(path: PathStatus, limit: str | None) -> Link:
    return Link(
        name=path.name,
        kind="path",
        state="up" if path.present else "down",
        reason=None if path.present else "no-interface",
        age=None,
        interface=path.interface,
        sent=None,
        received=None,
        use=None,
        rtt=None,
        download=None,
        upload=None,
        used=None,
        cap=None,
        subflows=path.subflows,
        throttled=path.throttled,
        limit=limit,
        advice=(),
    )


def sessions(status: Status) -> list[Session]:
    """The sessions that a throttler's status lists."""
    return [_session(session) for session in status.sessions]


def _session(session: SessionStatus) -> Session:
    subflows = tuple(map(_subflow, session.subflows))
    first = min(session.subflows, key=lambda subflow: not subflow.initial, default=None)
    return Session(
        token=session.token,
        client=first.remote if first else "",
        age=session.age_s,
        active=session.active_subflows,
        throttled=sum(subflow.throttled for subflow in subflows),
        sent=known_sum(subflow.sent for subflow in subflows),
        received=known_sum(subflow.received for subflow in subflows),
        subflows=subflows,
    )


def _subflow(subflow: SubflowStatus) -> Subflow:
    return Subflow(
        local=end(subflow.local, subflow.local_port),
        remote=end(subflow.remote, subflow.remote_port),
        path=subflow.path,
        initial=subflow.initial,
        backup=subflow.backup,
        rule=None if subflow.dry_run else subflow.rule,
        throttled=subflow.throttled,
        counted_by=subflow.rule if subflow.dry_run else None,
        rtt=None if subflow.rtt_us is None else subflow.rtt_us / 10**6,
        sent=subflow.sent_bytes,
        received=subflow.received_bytes,
    )


def rules(status: Status) -> list[Rule]:
    """The rules of a throttler's policy, in its order."""
    return [_rule(rule) for rule in status.rules]


def _rule(rule: RuleStatus) -> Rule:
    state = ("active" if rule.active else "not now", "only counts" * rule.dry_run, "set at run time" * rule.runtime)
    quota = rule.quota
    return Rule(
        name=rule.name,
        state=", ".join(filter(None, state)),
        rate=rule.rate,
        shared_by=rule.shared_by,
        subflows=rule.subflows,
        matches=rule.matches,
        quota=f"{Size(quota.bytes)} per {quota.period}" if quota else None,
        used=quota.max_used if quota else None,
        exhausted=quota.exhausted if quota else None,
    )


def classes(status: Status) -> list[HtbClass]:
    """The HTB classes that a throttler's status lists."""
    return [_class(entry) for entry in status.classes]


def _class(entry: ClassStatus) -> HtbClass:
    counters = entry.counters
    return HtbClass(
        device=entry.device,
        id=entry.id,
        direction=entry.direction,
        rule=entry.rule,
        owner=entry.owner,
        rate=entry.rate,
        ceiling=entry.ceiling,
        subflows=entry.subflows,
        sent=counters.sent_bytes if counters else None,
        dropped=counters.dropped_packets if counters else None,
        backlog=counters.backlog_bytes if counters else None,
    )


def known_sum(numbers: Iterable[N | None]) -> N | None:
    """The sum of those that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return cast(N, sum(known)) if known else None


def throttler(status: Status) -> Service:
    """The throttler in one line."""
    summary = (
        f"{plural(status.sessions_total, 'session')}, {plural(status.subflows_total, 'subflow')}, "
        f"{status.throttled_total:,} throttled, by {status.policy}"
    )
    return Service(name="throttler", running=True, uptime=status.uptime_s, summary=summary)


def router(answer: Answer) -> Service:
    """The router's daemon in one line."""
    up = sum(link["state"] == "up" for link in answer["wan"])
    gateway = answer["gateway"]
    tunnels = f", tunnels to {gateway['address']}" if gateway else ""
    summary = f"{up} of {plural(len(answer['wan']), 'link')} up{tunnels}"
    return Service(name="router", running=True, uptime=answer["uptime_s"], summary=summary)


def gateway(answer: Answer) -> Service:
    """The gateway of home routers in one line."""
    summary = f"{plural(answer['routers'], 'router')} enrolled"
    return Service(name="gateway", running=True, uptime=answer["uptime_s"], summary=summary)


def converter(answer: Answer) -> Service:
    """The native converter in one line."""
    state = "draining, " if answer["draining"] else ""
    summary = f"{state}{answer['open_connections']:,} of {answer['most_connections']:,} connections"
    return Service(name="converter", running=True, uptime=answer["uptime_seconds"], summary=summary)
