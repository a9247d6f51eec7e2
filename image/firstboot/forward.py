"""Tables [[forward]]: ports of the gateway's public address that lead to devices of the LAN. Pure."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Interface
from itertools import combinations
from typing import Annotated, Self

from pydantic import Field, model_validator

from image.firstboot.bypass import DEVICE, mac_address, overlapping
from image.firstboot.values import Contradiction
from tributary.settings.files import Settings
from tributary.settings.ports import Ports, ServicePorts
from tributary.settings.values import accepting, as_text, or_none

MOST_TABLES = 64
MOST_PORTS = 64

ADDRESS = "an address of the LAN that is not this box's, such as '192.168.77.20'"
TO_PORT = "1 to 65535, where all ports of the table are single ones, at most one of TCP and one of UDP"
TABLES = f"up to {MOST_TABLES} tables [[forward]], each with the keys ports and device"


class Forward(Settings):
    """Ports that lead to one device."""

    ports: list[ServicePorts] = Field(
        min_length=1, max_length=MOST_PORTS, title="ports of the gateway's public address"
    )
    device: Annotated[IPv4Address, accepting(ADDRESS, lambda value: IPv4Address(as_text(value)))] = Field(
        title="the device's address"
    )
    mac: Annotated[str | None, accepting(DEVICE, or_none(mac_address))] = Field(
        None, title="the device's MAC address: it then gets that address by DHCP"
    )
    to_port: int | None = Field(
        None, ge=1, le=65535, title="the device's port; none: the same as outside", description=TO_PORT
    )

    @model_validator(mode="after")
    def _leads_to_one_port(self) -> Self:
        protocols = [each.protocol for each in self.ports]
        is_one_each = all(each.is_single for each in self.ports) and len(set(protocols)) == len(protocols)
        if self.to_port is not None and not is_one_each:
            raise ValueError(f"to_port {TO_PORT}")
        return self


def contradictions(tables: Sequence[Forward], lan: IPv4Interface, *, hands_out: bool) -> Iterator[Contradiction]:
    """Keys, their values, and what is accepted instead; ``hands_out``: whether the box gives addresses by DHCP."""
    for place, table in enumerate(tables):
        hosts = (lan.network.network_address, lan.network.broadcast_address, lan.ip)
        if table.device not in lan.network or table.device in hosts:
            yield f"forward[{place}].device", str(table.device), f"{ADDRESS}; the LAN is {lan.network}"
        if table.mac and not hands_out:
            yield f"forward[{place}].mac", table.mac, "no such key, since dhcp_range = [] leaves DHCP to somebody else"
        yield from overlapping(f"forward[{place}].ports", table.ports, Ports.holds)
    for (first, one), (second, other) in combinations(enumerate(tables), 2):
        for ports in other.ports:
            if taken := next((each for each in one.ports if each.overlaps(ports)), None):
                yield f"forward[{second}].ports", str(ports), f"nothing that forward[{first}] has as well: {taken}"
        if one.mac and other.mac and (one.mac == other.mac) != (one.device == other.device):
            yield f"forward[{second}].mac", other.mac, f"one device for {other.device}, as in forward[{first}]"
