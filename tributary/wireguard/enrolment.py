"""A router's enrolment at one gateway: the table that ``tributary enrol`` prints."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Annotated, Self

from pydantic import Field

from tributary.settings.files import Settings
from tributary.settings.hosts import LABEL, Address, as_address, host_and_port, joined
from tributary.settings.values import accepting, or_none, reading, require
from tributary.wireguard.addresses import BLOCK, GLOBAL, LAN, PRIVATE
from tributary.wireguard.keys import Key

PORT = 51840
"""The default UDP port of a gateway's tunnels. Not WireGuard's 51820, which may be in use."""

ENDPOINT = (
    f"a name or an address, and a port if it is not {PORT}, such as 'gateway.example.net', '203.0.113.5:51820' or"
    " '[2001:db8::5]:51820'"
)
ROUTERS = f"the router's block of addresses, an IPv4 network of length {BLOCK}, such as '10.84.0.16/{BLOCK}'"
TABLES = "tables [[enrolment]] as `tributary enrol` prints them"
INSIDE = "an IPv4 address, such as '10.84.0.1'"
PREFIX = f"an IPv6 network of length {LAN} in {GLOBAL} or {PRIVATE}, such as '2001:db8:1:1::/{LAN}'"


@dataclass(frozen=True)
class Endpoint:
    """A gateway's endpoint: a name or an address, and a UDP port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read 'HOST', 'HOST:PORT', 'IPV6' or '[IPV6]:PORT'; raises ValueError."""
        host, port = host_and_port(text, PORT)
        require(as_address(host) is not None or _is_name(host))
        return cls(host, port)

    @property
    def address(self) -> Address | None:
        """The address, None for a name, which must be resolved."""
        return as_address(self.host)

    def __str__(self) -> str:
        return joined(self.host, self.port)


def _is_name(host: str) -> bool:
    """Whether a host can have this name (RFC 1123 section 2.1): its last label is not all digits."""
    labels = host.rstrip(".").split(".")
    return len(host) <= 253 and all(re.fullmatch(LABEL, each) for each in labels) and not labels[-1].isdigit()


def _is_of_a_lan(network: IPv6Network) -> bool:
    return network.prefixlen == LAN and any(map(network.subnet_of, (GLOBAL, PRIVATE)))


_READ_BLOCK = reading(IPv4Network, IPv4Network, lambda network: network.prefixlen == BLOCK)
_READ_PREFIX = reading(IPv6Network, IPv6Network, _is_of_a_lan)
Routers = Annotated[IPv4Network, accepting(ROUTERS, _READ_BLOCK)]
GatewayEndpoint = Annotated[Endpoint, accepting(ENDPOINT, reading(Endpoint, Endpoint.parse))]
Inside = Annotated[IPv4Address, accepting(INSIDE, reading(IPv4Address, IPv4Address))]
Prefix = Annotated[IPv6Network | None, accepting(PREFIX, or_none(_READ_PREFIX))]


class Enrolment(Settings):
    """A table [[enrolment]]; several gateways have one each, in the order in which the router tries them."""

    gateway: GatewayEndpoint = Field(title="where the gateway is")
    public_key: Key = Field(title="the gateway's public key")
    secret: Key = Field(title="the router's secret, from which its private keys come", repr=False)
    addresses: Routers = Field(title="the router's addresses inside the tunnels")
    inside: Inside = Field(title="the gateway's address inside the tunnels")
    prefix: Prefix = Field(None, title="IPv6 addresses of the router's LAN; none: no IPv6 there")


def table(enrolment: Enrolment) -> dict[str, str]:
    """The table's keys and values, with the secret."""
    given = ((name, getattr(enrolment, name)) for name in Enrolment.model_fields)
    return {name: str(value) for name, value in given if value is not None}


def text(enrolment: Enrolment) -> str:
    """The table as text for the router's settings."""
    return "[[enrolment]]\n" + "".join(f'{name} = "{value}"\n' for name, value in table(enrolment).items())
