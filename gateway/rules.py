"""The nft table of the tunnels, as text. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from gateway.registry import Routers
from gateway.settings import GatewaySettings
from squid import targets
from tributary.settings.ports import Ports
from tributary.settings.templates import rendered
from tributary.wireguard.addresses import DEFAULT_SLOT, block_of, gateway, tunnel_address
from tributary.wireguard.interface import Network

TABLE = "tributary-gateway"


def text(settings: GatewaySettings, routers: Routers, for_tunnels: Sequence[int]) -> str:
    """For ``nft --file -``: replaces the whole table.

    Packets of the IP versions in ``for_tunnels`` are forwarded from and to tunnels only.
    """
    return rendered(
        Path(__file__).with_name("rules.nft.j2"),
        interface=settings.interface,
        network=settings.network,
        inside=gateway(settings.network),
        ports=settings.converter_ports,
        dns=settings.dns,
        refused=[each for each in refused(settings) if each.version == 4],
        forwards=list(_forwards(settings.network, routers)),
        lan_prefix=settings.lan_prefix,
        refused6=[each for each in refused(settings) if each.version == 6],
        translates_lan_prefix=settings.translates_lan_prefix,
        for_tunnels=for_tunnels,
    )


@dataclass(frozen=True)
class _Forward:
    """Ports that are forwarded to a router, at its default tunnel: the old one until a rotation ends."""

    number: int
    address: IPv4Address
    ports: Sequence[Ports]


def _forwards(network: IPv4Network, routers: Routers) -> Iterator[_Forward]:
    for router in routers.values():
        if router.forward:
            address = tunnel_address(block_of(network, router.number), DEFAULT_SLOT)
            yield _Forward(router.number, address, router.forward)


def forward_targets(network: IPv4Network, routers: Routers) -> list[tuple[Ports, IPv4Address]]:
    """All forwarded ports, and the address that each is forwarded to."""
    return [(ports, forward.address) for forward in _forwards(network, routers) for ports in forward.ports]


def refused(settings: GatewaySettings) -> Sequence[Network]:
    """The networks that routers may not reach through the gateway."""
    return targets.disjoint([*targets.never(), *targets.private(settings.private_targets)])
