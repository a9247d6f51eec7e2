"""When each router was last seen, and its bytes received and sent, across restarts of the interface. Pure.

The interface's counters start from zero when it is created, and a peer's when it is added again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.peers import Tunnel, by_router
from tributary.wireguard.interface import PeerStatus

Counters = tuple[int, int]
"""Bytes received and sent."""


@dataclass(frozen=True)
class TrafficTotals:
    """Totals of one router; ``counters`` is the interface's last reading of each key."""

    last_seen: float | None
    received: int
    sent: int
    counters: Mapping[str, Counters]


NO_TRAFFIC = TrafficTotals(None, 0, 0, {})

Totals = Mapping[str, TrafficTotals]
"""By the names of the routers."""


def counted(before: Totals, tunnels: Iterable[Tunnel], there: Mapping[str, PeerStatus]) -> Totals:
    """The totals after a reading of the interface, for the routers that ``tunnels`` belong to only."""
    return {
        name: _counted(before.get(name, NO_TRAFFIC), [there[tunnel.key] for tunnel in its_own if tunnel.key in there])
        for name, its_own in by_router(tunnels).items()
    }


def _counted(before: TrafficTotals, there: list[PeerStatus]) -> TrafficTotals:
    deltas = [_delta(before.counters.get(peer.public_key, (0, 0)), (peer.received, peer.sent)) for peer in there]
    heard = [peer.handshake for peer in there if peer.handshake is not None]
    return TrafficTotals(
        # Not the later one of both: this machine's clock may have been ahead.
        max(heard, default=before.last_seen),
        before.received + sum(received for received, _ in deltas),
        before.sent + sum(sent for _, sent in deltas),
        {peer.public_key: (peer.received, peer.sent) for peer in there},
    )


def _delta(then: Counters, now: Counters) -> Counters:
    if now[0] < then[0] or now[1] < then[1]:
        return now
    return now[0] - then[0], now[1] - then[1]
