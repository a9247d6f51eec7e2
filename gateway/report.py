"""What ``list`` shows of each router: as a document, and as text. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from gateway.counters import Totals, TrafficTotals
from gateway.peers import Tunnel, by_router
from gateway.registry import Routers
from tributary.daemons.text import age, folded, plural, scaled
from tributary.wireguard.addresses import DEFAULT_SLOT
from tributary.wireguard.interface import PeerStatus

Answer = list[dict[str, Any]]

STALE = 180.0
"""Seconds after its last handshake from which a tunnel carries nothing (Reject-After-Time, section 6.1 of the paper on
WireGuard); one that is used, or kept alive, has a new one every two minutes."""


def routers(
    listed: Routers, tunnels: list[Tunnel], there: Mapping[str, PeerStatus], totals: Totals, now: float
) -> Answer:
    """All routers, in the order of their names; ``now`` in seconds since 1970."""
    its_own = by_router(tunnels)
    return [
        {
            "name": name,
            "number": router.number,
            "addresses": [str(tunnel.address) for tunnel in its_own[name]],
            "prefix": next((str(tunnel.lan) for tunnel in its_own[name] if tunnel.lan), None),
            "enrolled": _written(router.enrolled),
            "rotating": router.next is not None,
            "forward": [str(ports) for ports in router.forward],
            **_counted(totals.get(name, TrafficTotals()), now),
            "up": [_link(each, there[each.key]) for each in its_own[name] if _is_up(there.get(each.key), now)],
        }
        for name, router in listed.items()
    ]


def _counted(total: TrafficTotals, now: float) -> dict[str, Any]:
    seen = total.last_seen
    return {
        "last_seen": None if seen is None else _written(datetime.fromtimestamp(seen, UTC)),
        "last_seen_s": None if seen is None else round(now - seen, 3),
        "received": total.received,
        "sent": total.sent,
    }


def _is_up(peer: PeerStatus | None, now: float) -> bool:
    return peer is not None and peer.handshake is not None and now - peer.handshake < STALE


def _link(tunnel: Tunnel, peer: PeerStatus) -> dict[str, Any]:
    return {"slot": tunnel.slot, "address": str(tunnel.address), "outside": peer.endpoint}


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lines(answer: Answer, width: int) -> Iterator[Text]:
    """The same as text, in lines of at most ``width`` columns as far as single facts let them."""
    if not answer:
        yield Text("no router is enrolled: tributary-gateway enrol NAME")
    for number, router in enumerate(answer):
        if number:
            yield Text()
        links = sum(link["slot"] != DEFAULT_SLOT for link in router["up"])
        seen = "never seen" if router["last_seen_s"] is None else f"seen {age(max(router['last_seen_s'], 0))} ago"
        yield Text(f"{router['name']}: {plural(links, 'link')} up, {seen}", "bold")
        yield from folded(_facts(router), 2, width)


def _facts(router: dict[str, Any]) -> list[str]:
    return [
        f"number {router['number']}",
        f"addresses from {router['addresses'][0]}",
        *([f"LAN {router['prefix']}"] if router["prefix"] else []),
        f"enrolled {router['enrolled']}",
        *(["waits for its new keys to be used"] if router["rotating"] else []),
        *(f"{ports} forwarded to it" for ports in router["forward"]),
        *(f"{_called(link['slot'])} from {link['outside']}" for link in router["up"]),
        f"received {scaled(router['received'], 'B')}",
        f"sent {scaled(router['sent'], 'B')}",
    ]


def _called(slot: int) -> str:
    return "everything else" if slot == DEFAULT_SLOT else f"link {slot}"
