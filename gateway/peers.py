"""The peers that the interface should have, and those that it should not. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network

from gateway.registry import Identity, Router, Routers
from tributary.wireguard.addresses import BLOCK, DEFAULT_SLOT, LAN, SLOTS, block_of, prefix_of, tunnel_address
from tributary.wireguard.interface import Network, Peer, PeerStatus


@dataclass(frozen=True)
class Tunnel:
    """One tunnel of a router; ``lan`` are the addresses of the devices behind it."""

    router: str
    slot: int
    key: str
    address: IPv4Address
    lan: IPv6Network | None = None

    @property
    def allowed(self) -> tuple[Network, ...]:
        """WireGuard's AllowedIPs: what it may send from, and what is routed to it."""
        return (IPv4Network(self.address), *([self.lan] if self.lan else []))


@dataclass(frozen=True)
class Difference:
    """The tunnels that an interface lacks, and unexpected peers, or addresses of peers."""

    missing: tuple[Tunnel, ...]
    unexpected: tuple[PeerStatus, ...]
    kept: frozenset[Network] = frozenset()
    """LANs that are the same router's as before, by other keys."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)

    @property
    def routers(self) -> list[str]:
        """The names of the routers that are added, or get other keys or addresses."""
        return sorted({tunnel.router for tunnel in self.missing})

    @property
    def released(self) -> list[Network]:
        """The blocks and the LANs with addresses that no longer belong to their router."""
        found = {outer for peer in self.unexpected for allowed in peer.allowed if (outer := _of_a_router(allowed))}
        return sorted(found - self.kept, key=lambda network: (network.version, network.network_address.packed))


def _of_a_router(network: Network) -> Network | None:
    """The block or the LAN that ``network`` is in; None if it is wider: a person may have added that by wg(8)."""
    length = BLOCK if network.version == 4 else LAN
    return network.supernet(new_prefix=length) if network.prefixlen >= length else None


def tunnels(routers: Routers, network: IPv4Network, lans: IPv6Network | None = None) -> list[Tunnel]:
    """All tunnels of all routers, whose addresses are of ``network``, and those of their LANs of ``lans``."""
    return [
        tunnel
        for name, router in routers.items()
        for identity in router.identities
        for tunnel in _of_identity(name, identity, network, _lan(router, identity, lans))
    ]


def _lan(router: Router, identity: Identity, lans: IPv6Network | None) -> IPv6Network | None:
    """During a rotation a LAN is routed to the keys in use: no two peers can have one prefix."""
    waits = identity is not router and identity.lan_number == router.lan_number
    return None if waits else prefix_of(lans, identity.lan_number)


def _of_identity(name: str, identity: Identity, network: IPv4Network, lan: IPv6Network | None) -> Iterator[Tunnel]:
    block = block_of(network, identity.number)
    for slot, key in zip(SLOTS, identity.keys, strict=True):
        yield Tunnel(name, slot, key, tunnel_address(block, slot), lan if slot == DEFAULT_SLOT else None)


def by_router(tunnels: Iterable[Tunnel]) -> Mapping[str, Sequence[Tunnel]]:
    """The tunnels of each router, by its name."""
    found: dict[str, list[Tunnel]] = {}
    for tunnel in tunnels:
        found.setdefault(tunnel.router, []).append(tunnel)
    return found


def peers(wanted: Sequence[Tunnel]) -> tuple[Peer, ...]:
    """The interface's peers: each may send from its own addresses only, and has no endpoint until it is heard."""
    return tuple(Peer(tunnel.key, tunnel.allowed) for tunnel in wanted)


def difference(
    wanted: Sequence[Tunnel], there: Sequence[PeerStatus], kept: Collection[Network | None] = ()
) -> Difference:
    """What to change so that the interface, which has ``there``, gets what is ``wanted``.

    ``kept`` are LANs of routers that only change keys.
    """
    right = {tunnel.key: tunnel.allowed for tunnel in wanted}
    has = {peer.public_key: set(peer.allowed) for peer in there}
    return Difference(
        tuple(tunnel for tunnel in wanted if has.get(tunnel.key) != set(tunnel.allowed)),
        tuple(filter(None, (_unexpected(peer, right.get(peer.public_key)) for peer in there))),
        frozenset(filter(None, kept)),
    )


def remaining(wanted: Sequence[Tunnel], there: Sequence[PeerStatus]) -> list[Tunnel]:
    """Those that are ``wanted`` whose peers are ``there`` already, and have no address or LAN before the rules do."""
    has = {peer.public_key: peer.allowed for peer in there}
    return [
        replace(tunnel, lan=tunnel.lan if tunnel.lan in has[tunnel.key] else None)
        for tunnel in wanted
        if IPv4Network(tunnel.address) in has.get(tunnel.key, ())
    ]


def _unexpected(peer: PeerStatus, right: Sequence[Network] | None) -> PeerStatus | None:
    """The peer with its unexpected addresses, None without any. ``right`` None: all are unexpected."""
    wrong = tuple(each for each in peer.allowed if each not in (right or ()))
    return replace(peer, allowed=wrong) if wrong or right is None else None


def by_key(there: Sequence[PeerStatus]) -> Mapping[str, PeerStatus]:
    """The peers by their public keys."""
    return {peer.public_key: peer for peer in there}
