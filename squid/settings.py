"""The settings of the HTTP converter, and their defaults."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator

from squid import values
from squid.values import Address, Cache, ClientNetwork, PlainPath, PortRange, PrivateNetwork, Seconds
from tributary.settings.files import Settings
from tributary.settings.hosts import Network, joined
from tributary.settings.ports import of_tcp
from tributary.settings.privacy import Privacy
from tributary.settings.units import Duration

_ALL, _ALL_IPV4 = IPv6Address("::"), IPv4Address("0.0.0.0")
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@dataclass(frozen=True)
class Paths:
    """The files and folders of a running Squid; all absolute."""

    config: Path
    pid: Path
    logs: Path
    cache: Path


class SquidSettings(Settings):
    """One HTTP converter. Without settings it serves only this machine, on loopback."""

    # The title says what a key is for, the description what is accepted: help and errors print them.
    port: int = Field(3128, ge=1, le=65535, title="port to listen on")
    listen: list[Address] = Field([], title="addresses to listen on; none: all, or loopback without client_networks")
    client_networks: list[ClientNetwork] = Field([], title="who may use the proxy; none: this machine alone")
    connect_ports: list[PortRange] = Field(["443"], min_length=1, title="where CONNECT may go")
    http_ports: list[PortRange] = Field(
        ["80", "1024-65535"], min_length=1, title="where plain HTTP may go; below 1024 only to 80"
    )
    private_targets: list[PrivateNetwork] = Field(
        [], title="private networks that clients may reach", description=f"a list of {values.PRIVATE}"
    )
    counters_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        title="port of 127.0.0.1 where this machine's programs read Squid's counters; none: nowhere",
        description="a whole number from 1 to 65535, not that of port",
    )
    cache: Cache = Field(None, title="what the cache may hold on disk; none: off")
    head_timeout: Seconds = Field(Duration.parse("30s"), title="time for a request's whole head to arrive")
    drain: Seconds = Field(Duration.parse("10s"), title="time for running transfers at a stop")
    resolvers: list[Address] = Field([], title="DNS servers; none: those of /etc/resolv.conf")
    hosts_file: PlainPath = Field(Path("/etc/hosts"), title="names that are known before DNS is asked (hosts(5))")
    privacy: Privacy = Field(
        "full",
        title="clients' addresses in the access log",
        description="'full'; 'network': IPv4's /24, nothing of IPv6; 'none'",
    )
    state_directory: PlainPath | None = Field(
        None,
        title="for logs, cache and the rest, where the user proxy reaches it; none: Debian's places",
        description=values.PATH,
    )

    @field_validator("listen")
    @classmethod
    def _each_once(cls, addresses: list[Address]) -> list[Address]:
        # Squid's socket for :: takes IPv4 as well, the one for 0.0.0.0 IPv4 alone: no other finds the port free there.
        plain = [(isinstance(address, IPv6Address) and address.ipv4_mapped) or address for address in addresses]
        of_ipv4 = [address for address in plain if address.version == 4]
        covered = (_ALL in plain and len(plain) > 1) or (_ALL_IPV4 in plain and len(of_ipv4) > 1)
        if covered or len(set(plain)) < len(plain):
            raise ValueError(f"a list of {values.ADDRESSES}, each once; '::' alone, '0.0.0.0' as the only IPv4 address")
        return addresses

    @field_validator("connect_ports")
    @classmethod
    def _not_to_itself(cls, ports: list[str], info: ValidationInfo) -> list[str]:
        if "port" in info.data and any(of_tcp(each).holds(of_tcp(info.data["port"])) for each in ports):
            raise ValueError(f"{values.PORTS}, nor the proxy's own port, {info.data['port']}")
        return ports

    @field_validator("counters_port")
    @classmethod
    def _of_its_own(cls, port: int | None, info: ValidationInfo) -> int | None:
        if port is not None and port == info.data.get("port"):
            raise ValueError("a whole number from 1 to 65535, not that of port")
        return port

    @field_validator("head_timeout")
    @classmethod
    def _not_at_once(cls, time: Duration) -> Duration:
        if time.amount == 0:
            raise ValueError(f"{values.SECONDS}, above zero")
        return time

    @property
    def clients(self) -> list[Network]:
        """The networks that may use the proxy; never empty."""
        return list(self.client_networks or LOOPBACK)

    @property
    def addresses(self) -> list[str]:
        """Where it listens; none: every address."""
        # Without other clients it listens on loopback only.
        return list(map(str, self.listen)) if self.listen or self.client_networks else ["127.0.0.1", "::1"]

    @property
    def listeners(self) -> list[str]:
        """What Squid's http_port takes: '10.0.0.1:3128', '[fd00::1]:3128', or '3128' for every address."""
        return [joined(address, self.port) for address in self.addresses] or [str(self.port)]

    @property
    def sockets(self) -> list[tuple[str, int]]:
        counters = [("127.0.0.1", self.counters_port)] if self.counters_port else []
        return [*((address, self.port) for address in self.addresses or ["::"]), *counters]

    @property
    def paths(self) -> Paths:
        here = self.state_directory
        if here is None:
            return Paths(
                Path("/run/squid.conf"), Path("/run/squid.pid"), Path("/var/log/squid"), Path("/var/spool/squid")
            )
        return Paths(here / "squid.conf", here / "squid.pid", here / "log", here / "cache")
