"""The settings of a gateway that home routers reach through tunnels."""

from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Annotated

from pydantic import Field

from squid.values import PRIVATE, PrivateNetwork
from tributary.settings.files import Settings
from tributary.settings.ports import Ports, ServicePorts
from tributary.settings.values import accepting, as_text, matching, or_none, require
from tributary.wireguard.addresses import GLOBAL, LAN, max_routers
from tributary.wireguard.addresses import PRIVATE as OWN
from tributary.wireguard.enrolment import PORT, Endpoint

HOST = "a name or an address without a port, such as 'gateway.example.net', '203.0.113.5' or '2001:db8::5'"
NETWORK = "an IPv4 network of length 8 to 27, such as '10.84.0.0/16'; each router takes 16 addresses"
LAN_PREFIX = (
    f"an IPv6 prefix of length 32 to {LAN - 1}: one routed to this machine, such as"
    f" '2001:db8:1::/48', or a private one of {OWN}, such as 'fd12:3456:789a::/48', which is translated"
)
INTERFACE = "1 to 15 of a-z, A-Z, 0-9, _ and -"
TCP_PORTS = "a list of ports from 1 to 65535, such as [5124]"


def _host(value: object) -> str:
    text = as_text(value)
    try:
        return str(ip_address(text))
    except ValueError:
        require(not set(":[]") & set(text))
        return Endpoint.parse(text).host


def _network(value: object) -> IPv4Network:
    network = value if isinstance(value, IPv4Network) else IPv4Network(as_text(value))
    require(network.prefixlen >= 8 and max_routers(network) >= 1)
    return network


def _lan_prefix(value: object) -> IPv6Network:
    network = value if isinstance(value, IPv6Network) else IPv6Network(as_text(value))
    require(32 <= network.prefixlen < LAN and any(map(network.subnet_of, (GLOBAL, OWN))))
    return network


def _ports(value: object) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(type(port) is int and 1 <= port <= 65535 for port in value):
        raise ValueError
    return tuple(sorted(set(value)))


Host = Annotated[str, accepting(HOST, _host)]
Network = Annotated[IPv4Network, accepting(NETWORK, _network)]
LanPrefix = Annotated[IPv6Network | None, accepting(LAN_PREFIX, or_none(_lan_prefix))]
Interface = Annotated[str, matching(r"[A-Za-z0-9_-]{1,15}", INTERFACE)]
ConverterPorts = Annotated[tuple[int, ...], accepting(TCP_PORTS, _ports)]


class GatewaySettings(Settings):
    """/etc/tributary/gateway.toml. The title says what a key is for, the description what it takes."""

    name: Host = Field(title="where routers find the gateway")
    port: int = Field(PORT, ge=1, le=65535, title="UDP port of the tunnels", description="1 to 65535")
    network: Network = Field(IPv4Network("10.84.0.0/16"), title="addresses inside the tunnels")
    lan_prefix: LanPrefix = Field(None, title="IPv6 for the routers' LANs, a /64 each; none: no IPv6")
    interface: Interface = Field("tributary", title="name of the interface")
    mtu: int = Field(
        1420,
        ge=1280,
        le=9000,
        title="largest packet inside the tunnels: the links' less 80, for IPv6 outside",
        description="1280 to 9000",
    )
    converter_ports: ConverterPorts = Field((5124,), title="TCP ports of the inside address that routers reach")
    dns: bool = Field(True, title="look up names for routers, at port 53 of the inside address")
    private_targets: list[PrivateNetwork] = Field(
        [], title="private networks that routers reach; none: refused", description=PRIVATE
    )
    refused_ports: list[ServicePorts] = Field(
        [Ports("tcp", 25, 25)], validate_default=False, title="ports of the Internet that no router reaches"
    )
    connections: int = Field(
        4096,
        ge=64,
        le=65536,
        title="most connections of a router; as many by IPv6, and at forwarded ports",
        description="64 to 65536",
    )
    dns_rate: int = Field(
        100, ge=1, le=10_000, title="most DNS questions of a router in a second", description="1 to 10000"
    )
    never_forwarded: list[ServicePorts] = Field(
        [Ports("tcp", 22, 22)],
        validate_default=False,
        title="ports that no router is given, beside the tunnels' own; the playbook puts SSH's here",
    )

    @property
    def closed(self) -> tuple[Ports, ...]:
        """All ports that no router is given."""
        return (*self.never_forwarded, Ports("udp", self.port, self.port))

    @property
    def translates_lan_prefix(self) -> bool:
        """Whether the Internet has no way to ``lan_prefix``, so that LANs are seen by the gateway's own address."""
        return self.lan_prefix is not None and self.lan_prefix.subnet_of(OWN)
