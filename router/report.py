"""What ``router status`` shows, as a document, out of what the keeper knows."""

from collections.abc import Iterable
from typing import Any

from router import words
from router.keeper import Keeper
from router.links import Link
from router.multipath import outside
from router.ours import TABLES
from router.tunnels import Leg, Tunnel
from router.usage import Usage
from tributary.daemons.logs import timestamp

Answer = dict[str, Any]


def status(keeper: Keeper, wall: float, now: float) -> Answer:
    """The links as they rank, and more; ``wall`` in seconds since 1970, ``now`` by time.monotonic()."""
    limits = keeper.limits
    return {
        "limits": {"subflows": limits.subflows, "accepted_addresses": limits.accepted_addresses},
        "foreign_endpoints": [str(endpoint.address) for endpoint in keeper.foreign.values()],
        "gateway": _gateway(keeper, keeper.leg, now) if keeper.leg else None,
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
        "diagnosis": _findings(words.of_link(_facts(keeper, link))),
        "interface": link.interface.name if link.interface else None,
        "driver": link.interface.driver if link.interface else None,
        "bus": link.interface.bus if link.interface else None,
        "addresses": [str(address) for address in link.addresses],
        "gateways": [str(way.gateway) if way.gateway else "point-to-point" for way in link.ways],
        "delegated": str(link.delegated) if link.delegated else None,
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
        **_examined(keeper, link),
    }


def _cap(usage: Usage, name: str) -> Answer | None:
    if name not in usage.capped:
        return None
    since, until = usage.meters[name].since, usage.renews(name)
    return {
        "bytes": usage.cap(name),
        "used_bytes": usage.meters[name].used,
        "since": since.isoformat() if since else None,
        "until": until.isoformat() if until else None,
        "level": usage.level(name),
    }


def _facts(keeper: Keeper, link: Link) -> words.Facts:
    record = keeper.health.records.get(link.name)
    return words.Facts(
        name=link.name,
        down=keeper.state(link),
        interface=link.interface.name if link.interface else None,
        use=link.wan.use,
        waits=link.name in keeper.overflow.waiting,
        target=None if record is None else "The gateway" if keeper.leg else str(keeper.target),
        answers=False if link.name in keeper.health.silent else True if record and record.answers else None,
        target_answers=keeper.health.answers,
        needed=keeper.health.needed(link.name),
        reached=keeper.paths.reached.get(link.name),
        tunnel=keeper.gateways.current.gateway.port if keeper.gateways.current else None,
        login=keeper.portals.found.get(link.name),
        packet=keeper.paths.found.get(link.name),
        interface_packet=link.interface.mtu if link.interface else 0,
        inside=keeper.verdicts.found.get(link.name),
        outside=keeper.verdicts.found.get(outside(link.name)),
        others=tuple(
            keeper.verdicts.found[outside(other.name)]
            for other in keeper.links
            if other is not link and outside(other.name) in keeper.verdicts.found
        ),
    )


def _examined(keeper: Keeper, link: Link) -> Answer:
    """What was measured: bytes, what MPTCP came to, the address of a login page; None where nothing was."""
    tunnel = keeper.settings.tunnels.name(link.place + 1)
    given, verdicts = keeper.gateways.given.get(tunnel), keeper.verdicts.found
    return {
        "mtu": keeper.paths.found.get(link.name),
        "tunnel_mtu": given.mtu if given else None,
        "mptcp_inside": verdicts.get(link.name),
        "mptcp_outside": verdicts.get(outside(link.name)),
        "login_page": keeper.portals.found.get(link.name),
    }


def _findings(found: Iterable[words.Finding]) -> list[Answer]:
    return [{"cause": each.cause, "text": each.text} for each in found]


def _gateway(keeper: Keeper, leg: Leg, now: float) -> Answer:
    gateways = keeper.gateways
    earlier, scout = gateways.earlier, gateways.scout
    order = words.Order(
        str(gateways.place),
        str(earlier.gateway) if earlier else None,
        None if scout.since is None else now - scout.since,
        scout.needed,
    )
    answers = None if keeper.health.is_new else leg.answers
    return {
        "place": gateways.place,
        "earlier": order.earlier,
        "diagnosis": _findings(words.of_gateway(order, is_found=bool(gateways.found), answers=answers)),
        "addresses": [str(address) for address in gateways.found],
        "inside": str(leg.inside),
        "answers": leg.answers,
        "everything_else": _tunnel(leg.everything_else),
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
