"""What the interface should have, and what it has that it should not. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from gateway.registry import Identity, Routers
from tributary.wireguard.addresses import BLOCK, PLACES, block_of, of_tunnel
from tributary.wireguard.interface import Peer, Seen


@dataclass(frozen=True)
class Tunnel:
    """One tunnel of a router."""

    router: str
    place: int
    key: str
    address: IPv4Address


@dataclass(frozen=True)
class Difference:
    """What an interface lacks, and the peers that it should not have, or not with these addresses."""

    missing: tuple[Tunnel, ...]
    surplus: tuple[Seen, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)

    @property
    def routers(self) -> list[str]:
        """The names of those that come, or get other keys or addresses."""
        return sorted({tunnel.router for tunnel in self.missing})

    @property
    def lost(self) -> list[IPv4Network]:
        """The blocks of which addresses belong to nobody any more, or to somebody else."""
        blocks = {allowed.supernet(new_prefix=BLOCK) for peer in self.surplus for allowed in _narrow(peer)}
        return sorted(blocks)


def _narrow(peer: Seen) -> Iterator[IPv4Network]:
    """What a peer may send from, where that is inside of a block: a person may have added others by wg(8)."""
    return (network for network in peer.allowed if network.prefixlen >= BLOCK)


def tunnels(routers: Routers, network: IPv4Network) -> list[Tunnel]:
    """All tunnels of all routers."""
    return [
        tunnel
        for name, router in routers.items()
        for identity in router.identities
        for tunnel in tunnels_of(name, identity, network)
    ]


def tunnels_of(name: str, identity: Identity, network: IPv4Network) -> Iterator[Tunnel]:
    """Those of one identity of the router ``name``."""
    block = block_of(network, identity.number)
    for place, key in zip(PLACES, identity.keys, strict=True):
        yield Tunnel(name, place, key, of_tunnel(block, place))


def by_router(tunnels: Iterable[Tunnel]) -> Mapping[str, Sequence[Tunnel]]:
    """The tunnels of each router, by its name."""
    found: dict[str, list[Tunnel]] = {}
    for tunnel in tunnels:
        found.setdefault(tunnel.router, []).append(tunnel)
    return found


def peers(wanted: Sequence[Tunnel]) -> tuple[Peer, ...]:
    """As the interface gets them: each may send from its own address alone, and nobody is called first."""
    return tuple(Peer(tunnel.key, (IPv4Network(tunnel.address),)) for tunnel in wanted)


def difference(wanted: Sequence[Tunnel], there: Sequence[Seen]) -> Difference:
    """What is to be done so that the interface, which has ``there``, has what is ``wanted``."""
    right = {(tunnel.key, (IPv4Network(tunnel.address),)) for tunnel in wanted}
    has = {(peer.public_key, peer.allowed) for peer in there}
    return Difference(
        tuple(tunnel for tunnel in wanted if (tunnel.key, (IPv4Network(tunnel.address),)) not in has),
        tuple(peer for peer in there if (peer.public_key, peer.allowed) not in right),
    )


def by_key(there: Sequence[Seen]) -> Mapping[str, Seen]:
    """What the interface knows of each peer."""
    return {peer.public_key: peer for peer in there}
