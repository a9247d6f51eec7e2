"""What ``cpe status`` shows, as a document, out of what the keeper knows."""

from typing import Any

from cpe.keeper import Keeper
from cpe.links import Link
from cpe.ours import TABLES
from cpe.tunnels import Tunnel
from cpe.usage import Usage
from tributary.daemons.logs import timestamp

Answer = dict[str, Any]


def status(keeper: Keeper, wall: float) -> Answer:
    """The links as they rank, and the path manager's limits; ``wall`` in seconds since 1970."""
    limits = keeper.limits
    return {
        "limits": {"subflows": limits.subflows, "accepted_addresses": limits.accepted_addresses},
        "foreign_endpoints": [str(endpoint.address) for endpoint in keeper.foreign.values()],
        "gateway": _gateway(keeper),
        "wan": [_link(keeper, link, wall) for link in keeper.links],
    }


def _link(keeper: Keeper, link: Link, wall: float) -> Answer:
    state = keeper.states[link.name]
    return {
        "name": link.name,
        "state": "down" if state.down else "up",
        "why": state.down,
        "since": timestamp(state.since),
        "since_s": round(wall - state.since, 3),
        "interface": link.interface.name if link.interface else None,
        "driver": link.interface.driver if link.interface else None,
        "bus": link.interface.bus if link.interface else None,
        "addresses": [str(address) for address in link.addresses],
        "gateways": [str(way.gateway) if way.gateway else "point-to-point" for way in link.ways],
        "table": TABLES[link.place],
        "rank": link.rank + 1,
        "use": link.wan.use,
        "waits": link.name in keeper.overflow.waiting,
        "metered": link.wan.metered,
        "hours": [str(span) for span in link.wan.hours],
        "cap": _cap(keeper.usage, link.name),
        "tunnel": _tunnel(keeper.leg.of(link)) if keeper.leg else None,
        "endpoints": _endpoints(keeper, link),
        "probe": _probe(keeper, link),
    }


def _cap(usage: Usage, name: str) -> Answer | None:
    if name not in usage.capped:
        return None
    return {
        "bytes": usage.cap(name),
        "used_bytes": usage.meters[name].used,
        "since": usage.meters[name].since.isoformat(),
        "until": usage.renews(name).isoformat(),
        "level": usage.level(name),
    }


def _gateway(keeper: Keeper) -> Answer | None:
    if keeper.leg is None:
        return None
    return {
        "place": keeper.gateways.place,
        "addresses": [str(address) for address in keeper.gateways.found],
        "inside": str(keeper.leg.inside),
        "answers": keeper.leg.answers,
        "everything_else": _tunnel(keeper.leg.everything_else),
    }


def _tunnel(tunnel: Tunnel | None) -> Answer | None:
    return {"interface": tunnel.name, "address": str(tunnel.address)} if tunnel else None


def _endpoints(keeper: Keeper, link: Link) -> list[Answer]:
    tunnel = keeper.leg.of(link) if keeper.leg else None
    own = (*link.addresses, *([tunnel.address] if tunnel else []))
    standing = (keeper.endpoints[address] for address in own if address in keeper.endpoints)
    return [{"id": number, "address": str(endpoint.address)} for number, endpoint in standing]


def _probe(keeper: Keeper, link: Link) -> Answer | None:
    record = keeper.health.records.get(link.name)
    if record is None:
        return None
    return {"rtt_ms": None if record.rtt is None else round(record.rtt * 1000, 3), "failures": record.failures}
