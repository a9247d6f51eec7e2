"""Routers and what an interface knows of them, for the tests of this folder."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network

from gateway.peers import Tunnel, tunnels
from gateway.registry import Identity, Router
from tributary.settings.ports import Ports
from tributary.wireguard.addresses import SLOTS
from tributary.wireguard.interface import PeerStatus

NETWORK = IPv4Network("10.84.0.0/16")
LANS = IPv6Network("2001:db8:1::/48")
MOMENT = datetime(2026, 11, 24, 10, 0, tzinfo=UTC)


def key(number: int, place: int = 0) -> str:
    return base64.b64encode(bytes([*number.to_bytes(2), place] + [7] * 29)).decode()


def identity(number: int) -> Identity:
    return Identity(number=number, keys=[key(number, place) for place in SLOTS], enrolled=MOMENT)


def router(number: int, following: int | None = None, forward: Sequence[str] = ()) -> Router:
    renewed = None if following is None else identity(following)
    return Router(**identity(number).model_dump(), next=renewed, forward=list(map(Ports.parse, forward)))


def of(name: str, number: int, lans: IPv6Network | None = None) -> list[Tunnel]:
    return tunnels({name: router(number)}, NETWORK, lans)


def heard(tunnel: Tunnel, at: float | None = None, received: int = 0, sent: int = 0) -> PeerStatus:
    outside = None if at is None else "203.0.113.9:4000"
    return PeerStatus(tunnel.key, outside, at, received, sent, tunnel.allowed)
