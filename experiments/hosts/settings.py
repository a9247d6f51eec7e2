"""The file of --hosts: three machines, how they are reached, and the links between them."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from experiments.testbed.selfcheck import DOWN, RTT, UP
from experiments.testbed.topology import (
    CLIENT,
    FAMILIES,
    GATEWAY,
    SERVER,
    DirectionSettings,
    Link,
    LinkSettings,
    Profile,
    Topology,
    link_names,
)
from tributary.paths import ROOT
from tributary.settings.files import Settings, load
from tributary.settings.units import Duration, PositiveRate
from tributary.settings.values import accepting, or_none, reading

WHAT = (RTT, DOWN, UP)
ROLES = (CLIENT, GATEWAY, SERVER)
_FORBIDDEN_TARGETS = ROOT / "guard/forbidden-targets.toml"
_NONE6 = IPv6Address("::")
_Settings = TypeVar("_Settings", bound=Settings)

_IPV4, _IPV6 = "an IPv4 address in quotes, such as '192.0.2.1'", "an IPv6 address in quotes, such as '2001:db8::1'"
_ipv4, _ipv6 = reading(IPv4Address, IPv4Address), reading(IPv6Address, IPv6Address)
Address4 = Annotated[IPv4Address, accepting(_IPV4, _ipv4), Field(description=_IPV4)]
OptionalAddress4 = Annotated[IPv4Address | None, accepting(_IPV4, or_none(_ipv4))]
OptionalAddress6 = Annotated[IPv6Address | None, accepting(_IPV6, or_none(_ipv6))]


class HostSettings(Settings):
    """How a machine is reached; what is not said is as ssh_config(5) has it for ``host``."""

    host: str = Field(min_length=1, pattern=r"^[^-\s@][^\s@]*$", description="a name or an address that ssh(1) takes")
    user: str | None = Field(default=None, pattern=r"^[^-\s@][^\s@]*$", description="the name of root there")
    port: int | None = Field(default=None, ge=1, le=65535, description="a whole number from 1 to 65535")
    identity: str | None = Field(default=None, min_length=1, description="the path of a private key")
    checkout: str = Field(
        default="/opt/tributary", pattern="^/", description="an absolute path, of the Tributary checkout there"
    )

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host


class GatewaySettings(HostSettings):
    """``address`` is where clients dial the converter over every link; the first link's gateway unless given."""

    address: OptionalAddress4 = None
    address6: OptionalAddress6 = None


class ServerSettings(HostSettings):
    """``via`` is the gateway's address towards the server, if the server's routes to the client shall be made."""

    address: Address4
    address6: OptionalAddress6 = None
    via: OptionalAddress4 = None
    via6: OptionalAddress6 = None


class WaySettings(Settings):
    """What a link, or one direction of it, should be; what is not said is measured, and not judged."""

    rate: PositiveRate | None = Field(default=None, description=PositiveRate.ACCEPTED)
    delay: Duration | None = Field(default=None, description=Duration.ACCEPTED)


class HostLinkSettings(WaySettings):
    """A link: the addresses of its ends, and ``via``, the client's next hop there where that is not the gateway."""

    client: Address4
    gateway: Address4
    via: OptionalAddress4 = None
    client6: OptionalAddress6 = None
    gateway6: OptionalAddress6 = None
    via6: OptionalAddress6 = None
    down: WaySettings = WaySettings()
    up: WaySettings = WaySettings()

    @model_validator(mode="after")
    def _both_ends(self) -> Self:
        if (self.client6 is None) != (self.gateway6 is None):
            raise ValueError("client6 and gateway6 together, or neither")
        return self

    @property
    def described(self) -> frozenset[str]:
        """What is judged: ``rtt_ms``, ``down_mbps``, ``up_mbps``."""
        known = {
            DOWN: self.down.rate or self.rate,
            UP: self.up.rate or self.rate,
            RTT: (self.down.delay or self.delay) and (self.up.delay or self.delay),
        }
        return frozenset(what for what, value in known.items() if value)

    def placed(self, link: Link) -> Link:
        """``link`` with these addresses, each a network of its own: other links may be in the same one."""
        return replace(
            link,
            client4=self.client,
            gateway4=self.gateway,
            client6=self.client6 or _NONE6,
            gateway6=self.gateway6 or _NONE6,
            lengths=(32, 128),
            unjudged=frozenset(WHAT) - self.described,
        )


class HostsSettings(Settings):
    """The whole file. A link's name is the client's interface."""

    ssh_config: str | None = Field(default=None, min_length=1, description="the path of an ssh_config(5)")
    client: HostSettings
    gateway: GatewaySettings
    server: ServerSettings
    links: Annotated[
        dict[str, HostLinkSettings],
        AfterValidator(link_names),
        Field(min_length=1, max_length=8, description="one table [links.INTERFACE] for each of 1 to 8 access links"),
    ]

    def host(self, role: str) -> HostSettings:
        found: HostSettings = getattr(self, role)
        return found

    @property
    def families(self) -> tuple[str, ...]:
        everywhere = self.server.address6 and all(link.client6 for link in self.links.values())
        return FAMILIES if everywhere else FAMILIES[:1]

    def placed(self, topology: Topology) -> Topology:
        """``topology`` with the addresses of this file."""
        links = tuple(self.links[link.name].placed(link) for link in topology.links)
        servers = [ip_network(address) for address in (self.server.address, self.server.address6) if address]
        return Topology(
            links,
            families=self.families,
            PROXY4=self.gateway.address or links[0].gateway4,
            PROXY6=self.gateway.address6 or links[0].gateway6,
            SERVER4=self.server.address,
            SERVER6=self.server.address6 or _NONE6,
            CLIENT_NETWORKS=tuple(str(network) for link in links for network in link.networks),
            OPENED=tuple(str(server) for server in servers if _to_be_opened(server)),
        )

    @property
    def unknown(self) -> list[tuple[str, str]]:
        """What is not described: links, and what of them."""
        return [(name, what) for name, link in self.links.items() for what in WHAT if what not in link.described]

    def profile(self, measured: Mapping[tuple[str, str], float]) -> Profile:
        """The links as described, and as ``measured`` (link and what, Mbit/s or ms) where they are not."""
        return Profile(links={name: _filled(name, link, measured) for name, link in self.links.items()})


def _to_be_opened(server: IPv4Network | IPv6Network) -> bool:
    """Whether a converter reaches ``server`` only if it is told to."""
    rows = tomllib.loads(_FORBIDDEN_TARGETS.read_text())["range"]
    opened = [ip_network(row["network"]) for row in rows if row["operator_may_open"]]
    return any(ip_address(server.network_address) in network for network in opened)


def _filled(name: str, link: HostLinkSettings, measured: Mapping[tuple[str, str], float]) -> LinkSettings:
    def way(own: WaySettings, what: str) -> DirectionSettings:
        return DirectionSettings(
            rate=own.rate or link.rate or PositiveRate(max(1, round(1e6 * measured[name, what]))),
            delay=own.delay or link.delay or Duration(round(1000 * measured[name, RTT] / 2)),
        )

    return LinkSettings(down=way(link.down, DOWN), up=way(link.up, UP))


def load_hosts(path: Path) -> HostsSettings:
    """The file at ``path``, whose own paths begin beside it; raises CommandError with exit 64 or 66."""
    settings = load(path, HostsSettings)
    folder = path.parent.absolute()
    hosts = {role: _anchored(settings.host(role), "identity", folder) for role in ROLES}
    return _anchored(settings.model_copy(update=hosts), "ssh_config", folder)


def _anchored(settings: _Settings, key: str, folder: Path) -> _Settings:
    path = getattr(settings, key)
    return settings.model_copy(update={key: str(folder / Path(path).expanduser())}) if path else settings
