"""From the daemons' answers to the documents of the API. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from throttler.service.status import (
    ClassStatus,
    FoundSessions,
    PathStatus,
    RuleStatus,
    SessionStatus,
    Status,
    SubflowStatus,
)
from tributary.api.documents import Bypass, Device, HomeGateway, HtbClass, Link, LinkTunnel, Rule, Session, Subflow
from tributary.daemons.text import plural
from tributary.settings.hosts import joined
from tributary.settings.units import Size

LIMIT = "limit-"
"""What the names of rules begin with that ``tributary limit`` sets."""

Answer = Mapping[str, Any]
N = TypeVar("N", int, float)


def wan_links(answer: Answer) -> list[Link]:
    """The links of a router's status, by rank."""
    return list(map(_wan, answer["wan"]))


def link(**known: object) -> Link:
    """A link of which no more is known than this."""
    return Link.model_validate(dict.fromkeys(Link.model_fields) | {"advice": ()} | known)


def _wan(wan: Answer) -> Link:
    probe, cap, shaper = wan["probe"] or {}, wan["cap"] or {}, wan.get("shaper") or {}
    rtt = probe.get("rtt_ms")
    return link(
        name=wan["name"],
        kind="wan",
        state="standby" if wan["standby"] and wan["state"] == "up" else wan["state"],
        reason=wan["reason"],
        age=wan["state_age_s"],
        interface=wan["interface"],
        use=wan["use"],
        rtt=None if rtt is None else rtt / 1000,
        download=shaper.get("download"),
        upload=shaper.get("upload"),
        used=cap.get("used_bytes"),
        cap=cap.get("bytes"),
        advice=tuple(finding["text"] for finding in wan["diagnosis"]),
    )


def devices(answer: Answer) -> list[Device]:
    """Those of a router's LAN; what they receive the router sends."""
    return [
        Device(
            mac=each["mac"],
            name=each["name"],
            addresses=each["addresses"],
            sent=each["received_bytes"],
            received=each["sent_bytes"],
        )
        for each in answer["devices"]
    ]


def bypasses(answer: Answer) -> list[Bypass]:
    """Those of a router's LAN, in the order in which they count."""
    return [Bypass.model_validate(each) for each in answer["bypass"]]


def home_gateway(answer: Answer) -> HomeGateway | None:
    """The gateway of a router's status, if it has tunnels to one."""
    gateway = answer["gateway"]
    if gateway is None:
        return None
    tunnels = [_tunnel(link.name, link.state, link.rtt, wan["tunnel"]) for link, wan in _with_tunnels(answer)]
    if gateway["default_tunnel"]:
        state = "up" if gateway["answers"] else "down"
        tunnels.append(_tunnel(None, state, None, gateway["default_tunnel"]))
    return HomeGateway(
        address=gateway["address"],
        resolved=gateway["resolved"],
        answers=gateway["answers"],
        earlier=gateway["earlier"],
        tunnels=tuple(tunnels),
    )


def _with_tunnels(answer: Answer) -> list[tuple[Link, Answer]]:
    return [(_wan(wan), wan) for wan in answer["wan"] if wan["tunnel"]]


def _tunnel(link: str | None, state: str, rtt: float | None, tunnel: Answer) -> LinkTunnel:
    return LinkTunnel.model_validate({**tunnel, "link": link, "state": state, "rtt": rtt})


def paths(status: Status) -> list[Link]:
    """The paths of a throttler's policy, in its order."""
    limits = {rule.name.removeprefix(LIMIT): rule.rate for rule in status.rules if rule.name.startswith(LIMIT)}
    return [_path(path, limits.get(path.name)) for path in status.paths]


def _path(path: PathStatus, limit: str | None) -> Link:
    return link(
        name=path.name,
        kind="path",
        state="up" if path.present else "down",
        reason=None if path.present else "no-interface",
        interface=path.interface,
        subflows=path.subflows,
        throttled=path.throttled,
        limit=limit,
    )


def sessions(status: Status | FoundSessions) -> list[Session]:
    """The sessions that a throttler lists."""
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
        local=joined(subflow.local, subflow.local_port),
        remote=joined(subflow.remote, subflow.remote_port),
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
    return HtbClass(
        device=entry.device,
        id=entry.id,
        direction=entry.direction,
        rule=entry.rule,
        owner=entry.owner,
        rate=entry.rate,
        ceiling=entry.ceiling,
        subflows=entry.subflows,
        sent=entry.sent_bytes,
        dropped=entry.dropped_packets,
        backlog=entry.backlog_bytes,
    )


def known_sum(numbers: Iterable[N | None]) -> N | None:
    """The sum of those that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return cast(N, sum(known)) if known else None


def throttler(status: Status) -> tuple[float, str]:
    """For how long the throttler has run, and what it does, in one line."""
    sessions, subflows = plural(status.sessions_total, "session"), plural(status.subflows_total, "subflow")
    return status.uptime_s, f"{sessions}, {subflows}, {status.throttled_total:,} throttled, by {status.policy}"


def router(answer: Answer) -> tuple[float, str]:
    """The same of the router's daemon."""
    up = sum(link["state"] == "up" for link in answer["wan"])
    gateway = answer["gateway"]
    tunnels = f", tunnels to {gateway['address']}" if gateway else ""
    return answer["uptime_s"], f"{up} of {plural(len(answer['wan']), 'link')} up{tunnels}"


def gateway(answer: Answer) -> tuple[float, str]:
    """The same of the gateway of home routers."""
    return answer["uptime_s"], f"{plural(answer['routers'], 'router')} enrolled"


def console(answer: Answer) -> tuple[float, str]:
    """The same of the console."""
    return answer["uptime_s"], f"{plural(answer['open'], 'page')} open, at {' '.join(answer['pages'])}"


def converter(answer: Answer) -> tuple[float, str]:
    """The same of the native converter."""
    state = "draining, " if answer["draining"] else ""
    summary = f"{state}{answer['open_connections']:,} of {answer['most_connections']:,} connections"
    return answer["uptime_seconds"], summary
