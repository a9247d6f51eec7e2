"""What the interface should have, and what it has that it should not. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network

from gateway.registry import Identity, Router, Routers
from tributary.wireguard.addresses import BLOCK, DEFAULT_SLOT, LAN, SLOTS, block_of, prefix_of, tunnel_address
from tributary.wireguard.interface import Network, Peer, PeerStatus


@dataclass(frozen=True)
class Networks:
    """Where the addresses of all routers are: those of their tunnels, and those of their LANs, if these have any."""

    tunnels: IPv4Network
    lans: IPv6Network | None = None

    def lan_of(self, number: int) -> IPv6Network | None:
        """The prefix of the LAN of the router with this number; None if there is none for it."""
        return prefix_of(self.lans, number) if self.lans else None


@dataclass(frozen=True)
class Tunnel:
    """One tunnel of a router; ``lan`` are the addresses of devices that come by it."""

    router: str
    place: int
    key: str
    address: IPv4Address
    lan: IPv6Network | None = None

    @property
    def allowed(self) -> tuple[Network, ...]:
        """All that it may send from, and that leads to it."""
        return (IPv4Network(self.address), *([self.lan] if self.lan else []))


@dataclass(frozen=True)
class Difference:
    """What an interface lacks, and the peers that it should not have, with the addresses that are not theirs."""

    missing: tuple[Tunnel, ...]
    surplus: tuple[PeerStatus, ...]
    kept: frozenset[Network] = frozenset()
    """LANs that are the same router's as before, by other keys."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)

    @property
    def routers(self) -> list[str]:
        """The names of those that come, or get other keys or addresses."""
        return sorted({tunnel.router for tunnel in self.missing})

    @property
    def lost(self) -> list[Network]:
        """The blocks and the LANs of which addresses belong to nobody any more, or to somebody else."""
        found = {outer for peer in self.surplus for allowed in peer.allowed if (outer := _of_a_router(allowed))}
        return sorted(found - self.kept, key=lambda network: (network.version, network.network_address.packed))


def _of_a_router(network: Network) -> Network | None:
    """The block or the LAN that ``network`` is in; None if it is wider: a person may have added that by wg(8)."""
    length = BLOCK if network.version == 4 else LAN
    return network.supernet(new_prefix=length) if network.prefixlen >= length else None


def tunnels(routers: Routers, networks: Networks) -> list[Tunnel]:
    """All tunnels of all routers."""
    return [
        tunnel
        for name, router in routers.items()
        for identity in router.identities
        for tunnel in _of_identity(name, identity, networks, _lan(router, identity, networks))
    ]


def _lan(router: Router, identity: Identity, networks: Networks) -> IPv6Network | None:
    """A LAN that outlives a rotation is led to by the keys that are in use: no two peers have one prefix."""
    waits = identity is not router and identity.lan_number == router.lan_number
    return None if waits else networks.lan_of(identity.lan_number)


def _of_identity(name: str, identity: Identity, networks: Networks, lan: IPv6Network | None) -> Iterator[Tunnel]:
    block = block_of(networks.tunnels, identity.number)
    for place, key in zip(SLOTS, identity.keys, strict=True):
        yield Tunnel(name, place, key, tunnel_address(block, place), lan if place == DEFAULT_SLOT else None)


def by_router(tunnels: Iterable[Tunnel]) -> Mapping[str, Sequence[Tunnel]]:
    """The tunnels of each router, by its name."""
    found: dict[str, list[Tunnel]] = {}
    for tunnel in tunnels:
        found.setdefault(tunnel.router, []).append(tunnel)
    return found


def peers(wanted: Sequence[Tunnel]) -> tuple[Peer, ...]:
    """As the interface gets them: each may send from its own addresses alone, and nobody is called first."""
    return tuple(Peer(tunnel.key, tunnel.allowed) for tunnel in wanted)


def difference(
    wanted: Sequence[Tunnel], there: Sequence[PeerStatus], kept: Collection[Network | None] = ()
) -> Difference:
    """What is to be done so that the interface, which has ``there``, has what is ``wanted``.

    ``kept`` are LANs of routers that only get other keys.
    """
    right = {tunnel.key: tunnel.allowed for tunnel in wanted}
    has = {peer.public_key: set(peer.allowed) for peer in there}
    return Difference(
        tuple(tunnel for tunnel in wanted if has.get(tunnel.key) != set(tunnel.allowed)),
        tuple(filter(None, (_surplus(peer, right.get(peer.public_key)) for peer in there))),
        frozenset(filter(None, kept)),
    )


def _surplus(peer: PeerStatus, right: Sequence[Network] | None) -> PeerStatus | None:
    """The peer with what it has too much; None if that is nothing. ``right`` None: all of it."""
    wrong = tuple(each for each in peer.allowed if each not in (right or ()))
    return replace(peer, allowed=wrong) if wrong or right is None else None


def by_key(there: Sequence[PeerStatus]) -> Mapping[str, PeerStatus]:
    """What the interface knows of each peer."""
    return {peer.public_key: peer for peer in there}
