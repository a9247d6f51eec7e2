"""The settings of a home router: which interfaces are its access links (WANs), and how MPTCP uses them."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import Settings, check, drop_ins, load, parsed
from tributary.settings.hosts import Address, is_of_a_host
from tributary.settings.hours import TimeZone
from tributary.settings.lan_ipv6 import PRIVATE, SOURCES, LanIpv6, PrivatePrefix
from tributary.settings.links import USES, LinkPolicy, Use
from tributary.settings.metrics import Metrics
from tributary.settings.privacy import ACCEPTED, Privacy
from tributary.settings.probing import Probe
from tributary.settings.units import PositiveRate
from tributary.settings.values import accepting, as_text, matching, or_none, require
from tributary.wireguard.enrolment import TABLES, Enrolment
from tributary.wireguard.tunnels import PREFIX, Tunnels

MOST_WANS = 8
"""As many as the kernel has endpoints: MPTCP_PM_ADDR_MAX of net/mptcp/protocol.h."""

FAILBACK_SLOT = MOST_WANS + 1
"""The slot of the failback tunnel: after those of all links."""

NAME = "names of 1 to 40 of a-z, A-Z, 0-9, _ and -"
WANS = f"one to {MOST_WANS} tables such as [wan.dsl], with {NAME}"
GLOB = "text in which * stands for any characters and ? for one, as in glob(7)"
MATCHES = "at least one of the keys interface, driver, mac, bus"
MAC = "a MAC address such as '02:00:5e:10:00:01', or a pattern such as '02:00:5e:*'"
GATEWAYS = "at most one IPv4 and one IPv6 address without scope, such as ['192.168.1.1']"
PROBED = "adapt = true only with a probe.target or an enrolment, since delay is measured by probes"
LAN = "the name of an interface that is none of the links, such as 'end0'"
TRANSLATED = f"with lan_ipv6 = 'translated', and only then, {PRIVATE}"
INSIDE = "with an enrolment no probe.target, or one at the gateway's inside address, since tunnels lead nowhere else"


def _glob(value: object) -> str:
    glob = as_text(value)
    require(glob.isprintable() and glob != "")
    return glob


def _mac(value: object) -> str:
    mac = as_text(value)
    require(re.fullmatch(r"[0-9a-fA-F:*?]{1,17}", mac) is not None)
    return mac.lower()


def _gateways(value: object) -> tuple[Address, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, (str, Address)) for each in value):
        raise ValueError
    found = tuple(ip_address(each) for each in value)
    require(len({each.version for each in found}) == len(found) and all(map(is_of_a_host, found)))
    return found


_LIST = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
Glob = Annotated[str | None, accepting(GLOB, or_none(_glob))]
Mac = Annotated[str | None, accepting(MAC, or_none(_mac))]
Gateways = Annotated[tuple[Address, ...], accepting(GATEWAYS, _gateways)]


class Wan(LinkPolicy):
    """One access link: the interface that matches every given key."""

    # The title says what a key is for, the description what it takes: help and refusals print them.
    interface: Glob = Field(None, title="its name, or an alternative one of ip link")
    driver: Glob = Field(None, title="driver of ethtool -i, such as 'cdc_ether'")
    mac: Mac = Field(None, title="its current or permanent MAC address")
    bus: Glob = Field(None, title="bus-info of ethtool -i: 'usb-*-1.2' is one socket of a Raspberry Pi")
    fullmesh: bool = Field(False, title="also join to every announced address")
    gateway: Gateways = Field((), title="its default gateways; none: those of DHCP or router advertisements")

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if not (self.interface or self.driver or self.mac or self.bus):
            raise ValueError(MATCHES)
        return self


class Multipath(Settings):
    """The limits of the kernel's path manager, for each session."""

    subflows: int = Field(default=8, ge=1, le=8, title="subflows besides a session's first")
    accepted_addresses: int = Field(
        default=0, ge=0, le=8, title="announced addresses to join to; a fleet needs 1, and fullmesh on every link"
    )


class Bypassed(Settings):
    """What the LAN's rules lead past the tunnels."""

    match: Annotated[tuple[str, ...], _LIST] = Field(title="what they match, in words", description="a list of texts")
    to: str = Field(title="where that leads", description="a text")


class RouterSettings(Settings):
    """One home router."""

    wan: dict[str, Wan] = Field(title="the access links", description=WANS)
    mptcp: Multipath = Field(Multipath(), title="limits of the kernel's path manager")
    probe: Probe = Field(Probe(), title="probing of links")
    time_zone: TimeZone = Field(None, title="the time zone of hours and cap days; none: the system's")
    bypass: bool = Field(
        False, title="marks lead past the tunnels: 0x8400 by the best link, 0x8401 by the first, and so on"
    )
    bypassed: Annotated[tuple[Bypassed, ...], _LIST] = Field(
        (),
        title="what the LAN's rules lead past the tunnels, to be shown",
        description="tables [[bypassed]] with match and to, as an image writes them",
    )
    enrolment: Annotated[tuple[Enrolment, ...], _LIST] = Field(
        (), title="gateways, the first that answers; none: no tunnels", description=TABLES
    )
    lan: Annotated[str | None, matching(r"[A-Za-z0-9._-]{1,15}", LAN)] = Field(
        None, title="the LAN's interface, which gets an address of its IPv6 prefix"
    )
    devices: bool = Field(True, title="count what each LAN device sends and receives")
    leases: Path = Field(
        Path("/var/lib/misc/dnsmasq.leases"),
        strict=False,
        title="dnsmasq's leases, for the devices' names",
        description="the path of a file",
    )
    privacy: Privacy = Field("full", title="LAN devices' names and addresses", description=ACCEPTED)
    lan_ipv6: LanIpv6 = Field(LanIpv6.GATEWAY, strict=False, title="the source of that prefix", description=SOURCES)
    lan_prefix: PrivatePrefix = Field(None, title="the prefix of lan_ipv6 = 'translated'")
    tunnels: Tunnels = Field(Tunnels(), title="the tunnels' interfaces")
    metrics: Metrics = Field(Metrics(), title="metrics for Prometheus")

    @field_validator("wan")
    @classmethod
    def _named(cls, wans: dict[str, Wan]) -> dict[str, Wan]:
        if not 1 <= len(wans) <= MOST_WANS or not all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", each) for each in wans):
            raise ValueError(WANS)
        names = [wan.interface for wan in wans.values() if wan.interface and not set("*?[") & set(wan.interface)]
        if len(set(names)) < len(names):
            raise ValueError(f"{WANS}, no two of which name the same interface")
        return wans

    @model_validator(mode="after")
    def _translates(self) -> Self:
        if (self.lan_ipv6 is LanIpv6.TRANSLATED) != (self.lan_prefix is not None):
            raise ValueError(TRANSLATED)
        return self

    @model_validator(mode="after")
    def _measures(self) -> Self:
        if any(wan.adapt for wan in self.wan.values()) and not (self.probe.target or self.enrolment):
            raise ValueError(PROBED)
        return self

    @model_validator(mode="after")
    def _asks_inside(self) -> Self:
        target = self.probe.target
        if target and any(target.address != each.inside for each in self.enrolment):
            raise ValueError(INSIDE)
        return self

    @model_validator(mode="after")
    def _has_names_for_tunnels(self) -> Self:
        others = {self.lan, *(wan.interface for wan in self.wan.values())}
        taken = others.intersection((*self.tunnel_names, self.failback_name))
        if self.enrolment and taken:
            raise ValueError(f"tunnels.prefix: {PREFIX}: {min(map(str, taken))} is an interface of wan or lan")
        return self

    @property
    def tunnel_names(self) -> tuple[str, ...]:
        """The names of all tunnels' interfaces, that for everything else first; none without an enrolment."""
        return tuple(map(self.tunnels.name, range(len(self.wan) + 1))) if self.enrolment else ()

    @property
    def failback_name(self) -> str:
        """The interface's name of the tunnel to an earlier gateway."""
        return self.tunnels.name(FAILBACK_SLOT)

    @property
    def by_rank(self) -> list[str]:
        """The names of the links, the best first; of each use metered ones come last."""
        return sorted(self.wan, key=lambda name: (*self.wan[name].policy_rank, self.wan[name].priority))

    def with_changes(self, changes: Mapping[str, "LinkChange"]) -> Self:
        changed = {name: self.wan[name].model_copy(update=change.given) for name, change in changes.items()}
        return self.model_copy(update={"wan": {**self.wan, **changed}})


class LinkChange(Settings):
    """What may change of a link while the router runs, and what a drop-in may say; None: as the settings say."""

    use: Use | None = Field(None, strict=False, description=USES)
    download: PositiveRate | None = Field(None)
    upload: PositiveRate | None = Field(None)

    @property
    def given(self) -> dict[str, object]:
        return {key: value for key, value in dict(self).items() if value is not None}


class DropIn(Settings):
    """Settings that replace those of the file."""

    wan: dict[str, LinkChange] = Field(
        description="tables [wan.NAME] of links that the settings have, with use, download and upload"
    )


def read(file: Path) -> RouterSettings:
    """Reads the file and its drop-ins; raises CommandError as ``load``, and 64 if others can read a secret there."""
    settings = load(file, RouterSettings)
    if settings.enrolment and file.stat().st_mode & 0o077:
        raise CommandError(Exit.USAGE, f"{file}: has a secret, and others can read it: chmod 600 {file}")
    return _with_drop_ins(settings, file)


def parse(text: str, where: str, file: Path) -> RouterSettings:
    """Reads ``text``, called ``where`` in messages, as if it stood in ``file``; raises as ``read`` does."""
    return _with_drop_ins(check(parsed(text, where), RouterSettings, where), file)


def _with_drop_ins(settings: RouterSettings, file: Path) -> RouterSettings:
    for drop_in in sorted(drop_ins(file).glob("*.toml")):
        changes = load(drop_in, DropIn).wan
        for name in changes.keys() - settings.wan.keys():
            raise invalid_value(
                str(drop_in), f"wan.{name}", "(a table)", f"a link of {file}: {', '.join(settings.wan)}"
            )
        settings = settings.with_changes(changes)
    return settings
