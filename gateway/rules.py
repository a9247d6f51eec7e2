"""The nft table of the tunnels, as text. Pure."""

from ipaddress import IPv4Network
from pathlib import Path

from gateway.settings import GatewaySettings
from squid import targets
from tributary.settings.templates import rendered
from tributary.wireguard.addresses import gateway

TABLE = "tributary-gateway"


def text(settings: GatewaySettings) -> str:
    """For ``nft --file -``: replaces the whole table."""
    return rendered(
        Path(__file__).with_name("rules.nft.j2"),
        interface=settings.interface,
        network=settings.network,
        inside=gateway(settings.network),
        ports=settings.converter_ports,
        dns=settings.dns,
        refused=refused(settings),
    )


def refused(settings: GatewaySettings) -> list[IPv4Network]:
    """Where routers may not go through the gateway."""
    every = targets.disjoint([*targets.never(), *targets.private(settings.private_targets)])
    return [network for network in every if isinstance(network, IPv4Network)]
