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
from tributary.wireguard.addresses import EVERYTHING_ELSE, block_of, gateway, of_tunnel

TABLE = "tributary-gateway"


def text(settings: GatewaySettings, routers: Routers) -> str:
    """For ``nft --file -``: replaces the whole table."""
    return rendered(
        Path(__file__).with_name("rules.nft.j2"),
        interface=settings.interface,
        network=settings.network,
        inside=gateway(settings.network),
        ports=settings.converter_ports,
        dns=settings.dns,
        refused=refused(settings),
        forwards=list(_forwards(settings.network, routers)),
    )


@dataclass(frozen=True)
class _Forward:
    """Ports that lead to a router, by its tunnel for everything else: the old one until a rotation ends."""

    number: int
    address: IPv4Address
    ports: Sequence[Ports]


def _forwards(network: IPv4Network, routers: Routers) -> Iterator[_Forward]:
    for router in routers.values():
        if router.forward:
            address = of_tunnel(block_of(network, router.number), EVERYTHING_ELSE)
            yield _Forward(router.number, address, router.forward)


def refused(settings: GatewaySettings) -> list[IPv4Network]:
    """Where routers may not go through the gateway."""
    every = targets.disjoint([*targets.never(), *targets.private(settings.private_targets)])
    return [network for network in every if isinstance(network, IPv4Network)]
