"""When each router was heard last, and how many bytes it got and sent, over restarts of the interface. Pure.

The interface counts from zero whenever it is made anew, and so does a peer that is removed and comes back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.peers import Tunnel, by_router
from tributary.wireguard.interface import PeerStatus

Counters = tuple[int, int]
"""Bytes received and sent."""


@dataclass(frozen=True)
class Tally:
    """Of one router; ``counters`` is what the interface said of each key when it was asked last."""

    last_seen: float | None = None
    received: int = 0
    sent: int = 0
    counters: Mapping[str, Counters] = field(default_factory=dict)


Tallies = Mapping[str, Tally]
"""By the names of the routers."""


def counted(before: Tallies, tunnels: Iterable[Tunnel], there: Mapping[str, PeerStatus]) -> Tallies:
    """The tallies after a look at the interface, of the routers that ``tunnels`` belong to and of no others."""
    return {
        name: _counted(before.get(name, Tally()), [there[tunnel.key] for tunnel in its_own if tunnel.key in there])
        for name, its_own in by_router(tunnels).items()
    }


def _counted(before: Tally, there: list[PeerStatus]) -> Tally:
    grown = [_grown(before.counters.get(peer.public_key, (0, 0)), (peer.received, peer.sent)) for peer in there]
    heard = [peer.handshake for peer in there if peer.handshake is not None]
    return Tally(
        max([*heard, *([before.last_seen] if before.last_seen is not None else [])], default=None),
        before.received + sum(received for received, _ in grown),
        before.sent + sum(sent for _, sent in grown),
        {peer.public_key: (peer.received, peer.sent) for peer in there},
    )


def _grown(then: Counters, now: Counters) -> Counters:
    if now[0] < then[0] or now[1] < then[1]:
        return now
    return now[0] - then[0], now[1] - then[1]


def document(tallies: Tallies) -> dict[str, Any]:
    """As JSON keeps it."""
    return {name: vars(tally) for name, tally in tallies.items()}


def read(document: dict[str, Any]) -> Tallies:
    """Out of such a document; raises KeyError, TypeError or ValueError if it is none."""
    return {name: _read(entry) for name, entry in document.items()}


def _read(entry: dict[str, Any]) -> Tally:
    counters = {str(key): (int(pair[0]), int(pair[1])) for key, pair in entry["counters"].items()}
    heard = entry["last_seen"]
    return Tally(None if heard is None else float(heard), int(entry["received"]), int(entry["sent"]), counters)
