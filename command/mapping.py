"""From the daemons' answers to the documents of the API. Pure."""

from collections.abc import Mapping
from typing import Any

from throttler.service.status import PathStatus, RuleStatus, Status
from tributary.api.documents import HomeGateway, Link, LinkTunnel, Rule
from tributary.daemons.text import plural
from tributary.settings.units import Size

LIMIT = "limit-"
"""What the names of rules begin with that ``tributary limit`` sets."""
_WORKS = "works"
"""The code of a link that nothing is wrong with (docs/link-diagnosis.md)."""

Answer = Mapping[str, Any]


def link(**known: object) -> Link:
    """A link of which no more is known than this."""
    return Link.model_validate(dict.fromkeys(Link.model_fields) | {"advice": ()} | known)


def wan_link(wan: Answer) -> Link:
    """A link of a router's status."""
    probe, cap, shaper = wan["probe"] or {}, wan["cap"] or {}, wan.get("shaper") or {}
    rtt = probe.get("rtt_ms")
    return link(
        **{key: wan[key] for key in ("name", "reason", "interface", "use")},
        kind="wan",
        state="standby" if wan["standby"] and wan["state"] == "up" else wan["state"],
        age=wan["state_age_s"],
        rtt=None if rtt is None else rtt / 1000,
        loss=probe.get("loss"),
        # That of a link that is down is not shaped.
        download=shaper.get("download") or shaper.get("max_download"),
        upload=shaper.get("upload") or shaper.get("max_upload"),
        used=cap.get("used_bytes"),
        cap=cap.get("bytes"),
        advice=tuple(finding["text"] for finding in wan["diagnosis"] if finding["code"] != _WORKS),
    )


def home_gateway(answer: Answer) -> HomeGateway | None:
    """The gateway of a router's status, if it has tunnels to one."""
    gateway = answer["gateway"]
    if gateway is None:
        return None
    tunnelled = [(wan_link(wan), wan["tunnel"]) for wan in answer["wan"] if wan["tunnel"]]
    tunnels = [_tunnel(link.name, link.state, link.rtt, tunnel) for link, tunnel in tunnelled]
    if gateway["default_tunnel"]:
        state = "up" if gateway["answers"] else "down"
        tunnels.append(_tunnel(None, state, None, gateway["default_tunnel"]))
    about = {key: gateway[key] for key in ("address", "resolved", "answers", "earlier")}
    return HomeGateway(**about, tunnels=tuple(tunnels))


def _tunnel(link: str | None, state: str, rtt: float | None, tunnel: Answer) -> LinkTunnel:
    return LinkTunnel.model_validate({**tunnel, "link": link, "state": state, "rtt": rtt})


def paths(status: Status) -> list[Link]:
    """The paths of a throttler's policy, in its order."""
    limits = {rule.name.removeprefix(LIMIT): rule.rate for rule in status.rules if rule.name.startswith(LIMIT)}
    return [_path(path, limits.get(path.name)) for path in status.paths]


def _path(path: PathStatus, limit: str | None) -> Link:
    about = {key: value for key, value in vars(path).items() if key != "present"}
    state = {"state": "up"} if path.present else {"state": "down", "reason": "no-interface"}
    return link(**about, **state, kind="path", limit=limit)


def rule(status: RuleStatus) -> Rule:
    """One of a throttler's policy."""
    now = "active" if status.active else "not now"
    state = (now, "only counts" * status.dry_run, "set at run time" * status.runtime)
    quota = status.quota
    return Rule(
        name=status.name,
        state=", ".join(filter(None, state)),
        rate=status.rate,
        shared_by=status.shared_by,
        subflows=status.subflows,
        matches=status.matches,
        quota=f"{Size(quota.bytes)} per {quota.period}" if quota else None,
        used=quota.max_used if quota else None,
        exhausted=quota.exhausted if quota else None,
    )


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
