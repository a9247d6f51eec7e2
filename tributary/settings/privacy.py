"""How much of clients' addresses is shown and logged."""

from ipaddress import ip_network
from typing import Literal

from tributary.settings.hosts import Address, Network, as_address

Privacy = Literal["full", "network", "none"]
ACCEPTED = "'full'; 'network': IPv4's /24, IPv6's /48; 'none'"
BITS = {4: 24, 6: 48}
"""Of the networks that stand for clients, by IP version; a home's prefix is a /48 or longer (RFC 6177)."""
HIDDEN = "hidden"


def network_of(address: Address) -> Network:
    """The network that stands for ``address``."""
    return ip_network((address, BITS[address.version]), strict=False)


def shortened(address: str, privacy: Privacy) -> str:
    """What is shown of an address; of its network, the first one."""
    if privacy == "full":
        return address
    parsed = as_address(address.partition("%")[0]) if privacy == "network" else None
    return str(network_of(parsed).network_address) if parsed else HIDDEN
