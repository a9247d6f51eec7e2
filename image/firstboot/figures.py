"""Figures for Prometheus: at which ports they are, and who may read them, in clear. Pure."""

from collections.abc import Sequence

from pydantic import Field

from squid.values import ClientNetwork
from tributary.settings.files import Settings
from tributary.settings.hosts import Network

THROTTLER, CONVERTER, ROUTER = 9464, 9465, 9466
"""Ports, as with the playbook, by which the rules of alerts tell the parts."""
PORTS = (THROTTLER, CONVERTER, ROUTER)


class Metrics(Settings):
    """Who reads them."""

    networks: list[ClientNetwork] = Field(min_length=1, title="where Prometheus may connect from")


def address(networks: Sequence[Network], port: int) -> str:
    """Where a part listens for ``networks``: on every address, since DHCP may bring others; the firewall has them."""
    return f"{'[::]' if any(network.version == 6 for network in networks) else '0.0.0.0'}:{port}"
