"""What a person may write into tributary.toml on the boot partition: the model."""

from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface, IPv6Network
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from console.settings import PasswordHash as ConsolePasswordHash
from gateway.settings import HOST, GatewaySettings, Host
from image.firstboot import bypass, forward, names, public_key, values
from image.firstboot.access_point import AccessPoint, WirelessNetwork
from image.firstboot.bypass import Bypass
from image.firstboot.figures import Metrics
from image.firstboot.forward import Forward
from image.firstboot.names import Dns, Others
from image.firstboot.wan import Wan
from squid.values import ClientNetwork
from tributary.settings.files import Settings
from tributary.settings.hosts import CONVERT_PORT, Address, Target
from tributary.settings.hours import TimeZone
from tributary.settings.lan_ipv6 import SOURCES, LanIpv6, PrivatePrefix
from tributary.settings.ports import Ports, TcpPorts
from tributary.settings.privacy import ACCEPTED, Privacy
from tributary.settings.probing import Probe
from tributary.wireguard.addresses import GLOBAL
from tributary.wireguard.enrolment import TABLES, Enrolment
from tributary.wireguard.tunnels import Tunnels

MOST_WANS = 8
"""As many as tributary-router takes."""

MOST_GATEWAYS = 8

WANS = f"up to {MOST_WANS} tables such as [wan.dsl], with names of 1 to 40 of a-z, A-Z, 0-9, _ and -"
NETWORKS = f"tables such as [network.end0], each with {values.INTERFACE}"
STATIC_OR_DHCP = "either dhcp = true, which nobody needs to say, or an address"
ROUTED = (
    "a gateway only with an address, at most one of each IP version, inside a network of an address, or in fe80::/10"
)
CONSOLE = "'open' (whoever reaches it may look), 'closed' (who has logged in), or 'off'"
MOST_PORTS = 64


class Role(StrEnum):
    """What the box is."""

    GATEWAY = "gateway"
    ROUTER = "router"


OF_ROLE = {
    Role.GATEWAY: ("client_networks", "public_name", "routers"),
    Role.ROUTER: ("gateway", "enrolment", "wan", "lan", "access_point", "bypass", "forward"),
}
"""Keys that the other role does not use."""


class Leg(StrEnum):
    """How the gateway is reached."""

    WIREGUARD = "wireguard"
    PLAIN = "plain"


class Routers(GatewaySettings):
    """What else the gateway's settings take, under the same keys; who it is stands in public_name."""

    name: Host = Field("", validate_default=False, title="not here", description="no such key: public_name is the name")


class Wifi(WirelessNetwork):
    """One wireless network to join."""

    interface: values.Wireless = Field(None, title="by which interface; none: the first wireless one")


class Network(Settings):
    """How one interface gets its addresses."""

    dhcp: bool | None = Field(None, title="by DHCP and router advertisements; none: true without an address")
    address: values.HostAddresses = Field((), title="its addresses")
    gateway: values.Addresses = Field((), title="where its default routes lead")
    dns: values.Addresses = Field((), title="DNS servers, with DHCP further ones")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.dhcp is not None and self.dhcp == self.is_static:
            raise ValueError(STATIC_OR_DHCP)
        versions = [gateway.version for gateway in self.gateway]
        if len(set(versions)) < len(versions) or not all(map(self._is_near, self.gateway)):
            raise ValueError(ROUTED)
        return self

    def _is_near(self, gateway: Address) -> bool:
        if gateway.version == 6 and gateway.is_link_local:
            return any(each.version == 6 for each in self.address)
        return any(gateway in each.network and gateway != each.ip for each in self.address)

    @property
    def is_static(self) -> bool:
        return bool(self.address)


class Lan(Settings):
    """The side of a home router where the devices are."""

    interface: values.Interface = Field(title="its interface")
    address: values.LanAddress = Field(title="this box's address there")
    dhcp_range: values.DhcpRange = Field(
        None, title="what devices get; none: the half of the network that address is not in"
    )
    quic: bool | None = Field(
        None, title="let HTTP/3 pass, which takes one link instead of all; none: where tunnels keep its address"
    )
    not_bonded_ports: list[TcpPorts] = Field(
        [Ports("tcp", 25, 25)],
        max_length=MOST_PORTS,
        validate_default=False,
        title="ports of servers to which TCP takes one link, too",
    )

    ipv6: LanIpv6 | None = Field(
        None,
        strict=False,
        title="whose IPv6 addresses devices have; none: the gateway's, if there is a prefix in the enrolment",
        description=SOURCES,
    )
    ipv6_prefix: PrivatePrefix = Field(None, title="the prefix of ipv6 = 'translated'")
    bond_ipv6: bool = Field(False, title="with addresses of links: bond TCP over IPv6; the gateway must have IPv6")
    dns: Dns = Field(
        None,
        title="who is asked for names while no tunnel leads to the gateway; none: nobody, without tunnels the links",
    )
    private_names: list[bypass.Domain] = Field(
        [], max_length=bypass.MOST_VALUES, title="domains whose names may have private addresses in the Internet's DNS"
    )
    privacy: Privacy = Field("full", title="the devices' names and addresses on the page", description=ACCEPTED)

    @field_validator("dhcp_range")
    @classmethod
    def _inside(cls, leases: values.DhcpRange, info: ValidationInfo) -> values.DhcpRange:
        address: IPv4Interface | None = info.data.get("address")
        if not leases or address is None:
            return leases
        first, last = leases
        network = address.network
        if not network.network_address < first or not last < network.broadcast_address or first <= address.ip <= last:
            raise ValueError(values.DHCP_RANGE)
        return leases

    @property
    def leases(self) -> tuple[IPv4Address, IPv4Address] | None:
        """The first and the last address to give out, if any."""
        if self.dhcp_range is None:
            halves = list(self.address.network.subnets())
            free = next(half for half in halves if self.address.ip not in half)
            return max(free[0], self.address.network[1]), min(free[-1], self.address.network[-2])
        return (self.dhcp_range[0], self.dhcp_range[1]) if self.dhcp_range else None


class Card(Settings):
    """The whole file. Tables of the other role may stand there; they are checked, and not used."""

    # The title says what a key is for, the description what it takes: help and refusals print them.
    role: Role | None = Field(
        None, strict=False, title="what this box is; none: as the image was made", description="'gateway' or 'router'"
    )
    hostname: values.Hostname = Field("tributary", title="its name")
    time_zone: TimeZone = Field(None, title="router: where the times and days of links are meant; none: UTC")
    ssh_keys: list[values.PublicKey] = Field(
        [], title="who may log in by SSH, as the user tributary", description=f"a list of {public_key.ACCEPTED}"
    )
    admin_networks: list[values.AnyNetwork] = Field(
        [], title="from where SSH is let in, beside private addresses; on a gateway private ones reach the page, too"
    )
    password_hash: values.PasswordHash = Field(None, title="for logins at the console; none: locked")
    console: Literal["open", "closed", "off"] = Field(
        "open",
        title="the page of links and sessions, for a router's LAN or a gateway's admin_networks",
        description=CONSOLE,
    )
    console_password_hash: ConsolePasswordHash = Field(
        None, title="for logins at that page; none: only by what `tributary console login` prints"
    )
    metrics: Metrics | None = Field(None, title="figures for Prometheus; none: nobody else reads them")
    client_networks: list[ClientNetwork] = Field(
        [], title="gateway: who may use the converters; none: this machine alone"
    )
    public_name: Host | None = Field(
        None, title="gateway: how home routers, let in by keys, find this box; none: no tunnels", description=HOST
    )
    routers: Routers = Field(Routers(), title="gateway: how home routers are let in, beside its name")
    gateway: values.Gateway = Field(None, title="router: where the gateway is, for leg = 'plain'")
    leg: Leg | None = Field(
        None,
        strict=False,
        title="router: how the gateway is reached; none: by tunnels if there is an enrolment",
        description="'wireguard' or 'plain'",
    )
    enrolment: list[Enrolment] = Field(
        [], max_length=MOST_GATEWAYS, title="router: gateways that let this box in by its keys", description=TABLES
    )
    wifi: Wifi | None = Field(None, title="a wireless network to join")
    access_point: AccessPoint | None = Field(None, title="router: a wireless network of the box's own, for the LAN")
    network: dict[values.Interface, Network] = Field(
        {}, title="how interfaces get their addresses; none: by DHCP", description=NETWORKS
    )
    wan: dict[Annotated[str, Field(pattern=r"\A[A-Za-z0-9_-]{1,40}\z")], Wan] = Field(
        {}, max_length=MOST_WANS, title="router: the access links, two or more", description=WANS
    )
    probe: Probe = Field(Probe(), title="router: how links are asked whether they lead anywhere")
    tunnels: Tunnels = Field(Tunnels(), title="router: how tunnels to the gateway are made")
    lan: Lan | None = Field(None, title="router: the side of the devices")
    first_start_page: bool = Field(
        True, title="router: while no link and no gateway stands here, a page for the LAN asks for them"
    )
    bypass: list[Bypass] = Field(
        [],
        max_length=bypass.MOST_TABLES,
        title="router: what takes another way; the first table that matches counts",
        description=bypass.TABLES,
    )
    forward: list[Forward] = Field(
        [],
        max_length=forward.MOST_TABLES,
        title="router: ports of the gateway's public address that lead to devices",
        description=forward.TABLES,
    )

    def used_by(self, role: Role) -> Self:
        """Without what a box in ``role`` does not use."""
        (other,) = (each for each in Role if each is not role)
        unused = {key: type(self).model_fields[key].default for key in OF_ROLE[other]}
        page = self.first_start_page and role is Role.ROUTER
        return self.model_copy(update={**unused, "first_start_page": page})

    @property
    def metrics_networks(self) -> Sequence[values.AnyNetwork]:
        return self.metrics.networks if self.metrics else ()

    @property
    def has_router(self) -> bool:
        return bool(self.lan or self._has_more_than_lan)

    @property
    def _has_more_than_lan(self) -> bool:
        links = self.wan or self.gateway or self.enrolment
        return bool(links or self.access_point or self.bypass or self.forward)

    @property
    def asks_by_page(self) -> bool:
        """Whether a page for the LAN asks for what makes a home router: nothing but [lan] may stand here."""
        return self.first_start_page and not self._has_more_than_lan

    @property
    def ipv6(self) -> LanIpv6:
        given = self.lan.ipv6 if self.lan else None
        has_one = self.leg is not Leg.PLAIN and any(each.prefix for each in self.enrolment)
        return given or (LanIpv6.GATEWAY if has_one else LanIpv6.OFF)

    @property
    def asks_links(self) -> bool:
        """Whether links' providers are asked for prefixes."""
        return self.ipv6 in (LanIpv6.LINK, LanIpv6.TRANSLATED)

    @property
    def bonds_ipv6(self) -> bool:
        """Whether TCP over IPv6 is for the gateway."""
        return self.ipv6 is LanIpv6.GATEWAY or (self.asks_links and self.lan is not None and self.lan.bond_ipv6)

    @property
    def enrolments(self) -> tuple[Enrolment, ...]:
        """The gateways that tunnels lead to, with a prefix where that is used; none where the leg is plain."""
        if self.leg is Leg.PLAIN:
            return ()
        if self.ipv6 is LanIpv6.GATEWAY:
            return tuple(self.enrolment)
        return tuple(each.model_copy(update={"prefix": None}) for each in self.enrolment)

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """What leads to devices: nothing without tunnels."""
        return tuple(self.forward) if self.enrolments else ()

    @property
    def prefixes(self) -> tuple[IPv6Network, ...]:
        """Where devices have IPv6 addresses: prefixes of gateways that have one for this box, or what links bring."""
        if self.ipv6 is LanIpv6.LINK:
            return (GLOBAL,)
        if self.ipv6 is LanIpv6.TRANSLATED and self.lan and self.lan.ipv6_prefix:
            return (self.lan.ipv6_prefix,)
        return tuple(dict.fromkeys(each.prefix for each in self.enrolments if each.prefix))

    @property
    def other_names(self) -> Others:
        """Who is asked for names while no tunnel leads to a gateway."""
        given = self.lan.dns if self.lan else None
        return given or (names.NOBODY if self.enrolments else names.LINKS)

    def may_bring_a_prefix(self, wan: Wan) -> bool:
        """Whether systemd-networkd can ask the provider of ``wan`` for one: no modem's, none with fixed addresses."""
        fixed = (name for name, network in self.network.items() if network.is_static)
        return not (wan.modem or any(map(wan.may_be, fixed)))

    @property
    def target(self) -> Target | None:
        """Where the gateway's converter is: inside the tunnels, or at its address."""
        return Target(self.enrolments[0].inside, CONVERT_PORT) if self.enrolments else self.gateway

    @property
    def lets_quic_pass(self) -> bool:
        given = self.lan.quic if self.lan else None
        return bool(self.enrolments) if given is None else given

    @property
    def can_log_in(self) -> bool:
        return bool(self.ssh_keys or self.password_hash)
