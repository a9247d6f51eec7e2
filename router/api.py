"""The document of the daemon's status."""

import time
from collections.abc import Iterable
from typing import Any

from router import diagnosis
from router.identifiers import LINK_TABLES
from router.links.model import Link
from router.links.usage import Usage
from router.live_settings import LiveSettings
from router.probes.mptcp import outside
from router.shaping.shaper import LinkShapers
from router.state.reconciler import Reconciler
from router.tunnels.model import GatewayTunnels, Tunnel
from tributary.daemons.logs import timestamp

Answer = dict[str, Any]

_INTERVAL = 0.25
"""Seconds for which a document that was made is answered again."""


class Status:
    """The document, with what was set at run time; made at most four times a second."""

    def __init__(self, settings: LiveSettings, reconciler: Reconciler, shapers: LinkShapers) -> None:
        self._settings, self._reconciler, self._shapers = settings, reconciler, shapers
        self._started = time.monotonic()
        self._shown: tuple[float, Answer] | None = None

    def forget(self) -> None:
        """Something was changed that shall be shown at once."""
        self._shown = None

    def document(self, now: float) -> Answer:
        """``now`` by time.monotonic()."""
        if self._shown is None or now >= self._shown[0] + _INTERVAL:
            made = status(self._reconciler, time.time(), now)
            for link, shown in zip(self._reconciler.links, made["wan"], strict=True):
                shown["shaper"] = self._shapers.status(link)
                shown["set"] = self._settings.shown(link.name)
            uptime = round(now - self._started, 3)
            # Who asks may be in another folder.
            self._shown = now, {"settings": str(self._settings.file.absolute()), "uptime_s": uptime, **made}
        return self._shown[1]


def status(reconciler: Reconciler, wall: float, now: float) -> Answer:
    """The links by rank, and more; ``wall`` in seconds since 1970, ``now`` by time.monotonic()."""
    limits = reconciler.limits
    return {
        "limits": {"subflows": limits.subflows, "accepted_addresses": limits.accepted_addresses},
        "unmanaged_endpoints": [str(endpoint.address) for endpoint in reconciler.unmanaged.values()],
        "gateway": _gateway(reconciler, reconciler.gateway_tunnels, now) if reconciler.gateway_tunnels else None,
        "wan": [_link(reconciler, link, wall, now) for link in reconciler.links],
    }


def _link(reconciler: Reconciler, link: Link, wall: float, now: float) -> Answer:
    # A clock that was set since, as by the first time server after a boot, changes when that was and not for how long.
    age = now - link.since
    facts = _link_facts(reconciler, link)
    applied = reconciler.gateways.applied.get(reconciler.settings.tunnels.name(link.slot + 1))
    return {
        "name": link.name,
        "state": "down" if link.reason else "up",
        "reason": link.reason,
        "since": timestamp(wall - age),
        "state_age_s": round(age, 3),
        "diagnosis": _findings(diagnosis.of_link(facts)),
        "interface": facts.interface,
        "driver": link.interface.driver if link.interface else None,
        "bus": link.interface.bus if link.interface else None,
        "addresses": [str(address) for address in link.addresses],
        "gateways": [str(next_hop.gateway) if next_hop.gateway else "point-to-point" for next_hop in link.next_hops],
        "delegated": str(link.delegated) if link.delegated else None,
        "table": LINK_TABLES[link.slot],
        "rank": link.rank + 1,
        "begins_sessions": link.name == reconciler.beginning,
        "use": link.wan.use,
        "standby": link.is_standby,
        "metered": link.wan.metered,
        "hours": [str(span) for span in link.wan.hours],
        "cap": _cap(reconciler.usage, link.name),
        "tunnel": _tunnel(reconciler.gateway_tunnels.of(link)) if reconciler.gateway_tunnels else None,
        "endpoints": _endpoints(reconciler, link),
        "probe": _probe(reconciler, link),
        # The results of the checks; None where there are none.
        "mtu": facts.mtu,
        "tunnel_mtu": applied.mtu if applied else None,
        "mptcp_inside": facts.inside,
        "mptcp_outside": facts.outside,
        "login_page": facts.login_page,
    }


def _cap(usage: Usage, name: str) -> Answer | None:
    if name not in usage.capped:
        return None
    since, until = usage.meters[name].since, usage.resets_on(name)
    return {
        "bytes": usage.cap(name),
        "used_bytes": usage.meters[name].used,
        "since": since.isoformat() if since else None,
        "until": until.isoformat() if until else None,
        "level": usage.level(name),
    }


def _link_facts(reconciler: Reconciler, link: Link) -> diagnosis.LinkFacts:
    record = reconciler.health.records.get(link.name)
    return diagnosis.LinkFacts(
        name=link.name,
        down=link.reason,
        interface=link.interface.name if link.interface else None,
        use=link.wan.use,
        standby=link.is_standby,
        target=None if record is None else "The gateway" if reconciler.gateway_tunnels else str(reconciler.target),
        is_answered=False if link.name in reconciler.health.silent else True if record and record.answers else None,
        is_target_answering=reconciler.health.answers,
        required=reconciler.health.required(link.name),
        is_gateway_reachable=reconciler.paths.reached.get(link.name),
        tunnel=reconciler.gateways.current.gateway.port if reconciler.gateways.current else None,
        login_page=reconciler.portals.results.get(link.name),
        mtu=reconciler.paths.results.get(link.name),
        interface_mtu=link.interface.mtu if link.interface else 0,
        lacks=_lacks(reconciler, link),
        inside=reconciler.verdicts.results.get(link.name),
        outside=reconciler.verdicts.results.get(outside(link.name)),
        others=tuple(
            reconciler.verdicts.results[outside(other.name)]
            for other in reconciler.links
            if other is not link and outside(other.name) in reconciler.verdicts.results
        ),
    )


def _lacks(reconciler: Reconciler, link: Link) -> int | None:
    """The IP version of all of the gateway's addresses, if the link leads out by the other one alone."""
    target = reconciler.settings.probe.target
    gateway = reconciler.gateways.resolved if reconciler.gateways.current else (target.address,) if target else ()
    of_gateway, own = {each.version for each in gateway}, {each.version for each in link.next_hops}
    return min(of_gateway) if of_gateway and own and own.isdisjoint(of_gateway) else None


def _findings(found: Iterable[diagnosis.Diagnosis]) -> list[Answer]:
    return [{"code": each.code, "text": each.text} for each in found]


def _gateway(reconciler: Reconciler, gateway_tunnels: GatewayTunnels, now: float) -> Answer:
    gateways, failback = reconciler.gateways, reconciler.gateways.failback
    earlier = str(gateways.earlier.gateway) if gateways.earlier else None
    found = diagnosis.of_gateway(
        str(gateways.address),
        bool(gateways.resolved),
        None if reconciler.health.is_new else gateway_tunnels.answers,
        earlier,
        None if failback.since is None else now - failback.since,
        failback.required,
    )
    return {
        "address": gateways.address,
        "earlier": earlier,
        "diagnosis": _findings(found),
        "resolved": [str(address) for address in gateways.resolved],
        "inside": str(gateway_tunnels.inside),
        "answers": gateway_tunnels.answers,
        "default_tunnel": _tunnel(gateway_tunnels.default_tunnel),
    }


def _tunnel(tunnel: Tunnel | None) -> Answer | None:
    return {"interface": tunnel.name, "address": str(tunnel.address)} if tunnel else None


def _endpoints(reconciler: Reconciler, link: Link) -> list[Answer]:
    tunnel = reconciler.gateway_tunnels.of(link) if reconciler.gateway_tunnels else None
    own = (*link.addresses, *([tunnel.address] if tunnel else []))
    existing = (reconciler.endpoints[address] for address in own if address in reconciler.endpoints)
    return [{"id": number, "address": str(endpoint.address)} for number, endpoint in existing]


def _probe(reconciler: Reconciler, link: Link) -> Answer | None:
    record = reconciler.health.records.get(link.name)
    if record is None:
        return None
    return {
        "rtt_ms": None if record.rtt is None else round(record.rtt * 1000, 3),
        "failures": record.failures,
        "probes": record.probes,
        "unanswered": record.unanswered,
        "loss": record.loss,
    }
