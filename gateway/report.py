"""What ``tributary routers`` shows of each router."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from gateway.counters import NO_TRAFFIC, Totals, TrafficTotals
from gateway.peers import Tunnel, by_key, by_router
from gateway.registry import Router, Routers
from gateway.tunnels import Gateway
from tributary.api import documents
from tributary.daemons.state_file import Tell
from tributary.settings.errors import CommandError
from tributary.wireguard.addresses import DEFAULT_SLOT
from tributary.wireguard.interface import PeerStatus

STALE = 180.0
"""Seconds after its last handshake from which a tunnel carries nothing (Reject-After-Time, section 6.1 of the paper on
WireGuard); one that is used, or kept alive, has a new one every two minutes."""


def listed(gateway: Gateway, known: Routers, now: float, tell: Tell) -> list[documents.Router]:
    """All routers with what is there of them; ``tell`` gets what is wrong with the totals. Needs root.

    ``now`` in seconds since 1970.
    """
    there = gateway.there() if gateway.stands else ()
    try:
        kept = gateway.state.totals()
    except CommandError as failure:
        tell(str(failure))
        kept = {}
    totals = gateway.counted(kept, known, there)
    return routers(known, gateway.tunnels(known), by_key(there), totals, now)


def routers(
    listed: Routers, tunnels: list[Tunnel], there: Mapping[str, PeerStatus], totals: Totals, now: float
) -> list[documents.Router]:
    """All routers, in the order of their names; ``now`` in seconds since 1970."""
    its_own = by_router(tunnels)
    return [
        _router(name, router, its_own[name], there, totals.get(name, NO_TRAFFIC), now)
        for name, router in listed.items()
    ]


def _router(
    name: str,
    router: Router,
    tunnels: Sequence[Tunnel],
    there: Mapping[str, PeerStatus],
    total: TrafficTotals,
    now: float,
) -> documents.Router:
    return documents.Router(
        name=name,
        number=router.number,
        addresses=tuple(str(tunnel.address) for tunnel in tunnels),
        prefix=next((str(tunnel.lan) for tunnel in tunnels if tunnel.lan), None),
        enrolled=router.enrolled.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        rotating=router.next is not None,
        # A clock that was set back makes nobody seen in the future.
        last_seen=None if total.last_seen is None else max(0.0, round(now - total.last_seen, 3)),
        received=total.received,
        sent=total.sent,
        up=tuple(_link(each, there[each.key]) for each in tunnels if _is_up(there.get(each.key), now)),
        forwards=tuple(str(ports) for ports in router.forward),
    )


def _is_up(peer: PeerStatus | None, now: float) -> bool:
    # One of a later hour is of before this machine's clock was set back: nothing says that there was another since.
    return peer is not None and peer.handshake is not None and abs(now - peer.handshake) < STALE


def _link(tunnel: Tunnel, peer: PeerStatus) -> documents.Tunnel:
    link = None if tunnel.slot == DEFAULT_SLOT else tunnel.slot
    return documents.Tunnel(link=link, address=str(tunnel.address), outside=peer.endpoint)
