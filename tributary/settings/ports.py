"""Ports as a person writes them in settings and arguments, and as nft(8) does. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Self

from pydantic import PlainSerializer

from tributary.settings.values import accepting, as_text, reading, require

TCP_PORTS = "a port, such as 25, or a range, such as '6000-6100', of 1 to 65535"
SERVICE = "tcp/ or udp/ and a port or a range of 1 to 65535, such as 'tcp/25' or 'udp/5060-5090'"


@dataclass(frozen=True)
class Ports:
    """The ports ``first`` to ``last`` of one protocol, 'tcp' or 'udp'."""

    protocol: str
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read 'tcp/25' or 'udp/5060-5090'; raises ValueError."""
        match = re.fullmatch(r"(tcp|udp)/(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
        if match is None:
            raise ValueError
        protocol, first, last = match.groups()
        found = cls(protocol, int(first), int(last or first))
        require(1 <= found.first <= found.last <= 65535)
        return found

    @property
    def span(self) -> str:
        """'25' or '6000-6100', for nft as well."""
        return str(self.first) if self.is_single else f"{self.first}-{self.last}"

    @property
    def is_single(self) -> bool:
        return self.first == self.last

    def __str__(self) -> str:
        return f"{self.protocol}/{self.span}"

    def holds(self, other: "Ports") -> bool:
        """Whether all of ``other`` are among these."""
        return self.protocol == other.protocol and self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "Ports") -> bool:
        return self.protocol == other.protocol and self.first <= other.last and other.first <= self.last


def disjoint(ports: Iterable[Ports]) -> list[Ports]:
    """The same ports, none of them twice: nft(8) takes no set of ranges that overlap."""
    found: list[Ports] = []
    for each in sorted(ports, key=lambda one: (one.protocol, one.first)):
        if found and found[-1].overlaps(each):
            found[-1] = replace(found[-1], last=max(found[-1].last, each.last))
        else:
            found.append(each)
    return found


def of_tcp(value: object) -> Ports:
    """Read 25 or '6000-6100'; raises ValueError or TypeError."""
    return Ports.parse(f"tcp/{value if type(value) is int else as_text(value)}")


TcpPorts = Annotated[Ports, accepting(TCP_PORTS, of_tcp)]
ServicePorts = Annotated[Ports, accepting(SERVICE, reading(Ports, Ports.parse)), PlainSerializer(str)]
